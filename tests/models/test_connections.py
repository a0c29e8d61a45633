"""Each thing that can stand between a client and its server, put there: proxies, certificates, names, ports."""
import shutil
import socketserver
import ssl
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from asking import model_at, question
from misbehaving_server import MisbehavingServer, answer, free_port, status

from factlab.cli.main import main
from factlab.core.core import ModelError
from factlab.core.network import network_fault, proxy_of, without_password
from factlab.models.interface import ask, unload_models

VARIABLES = [f'{scheme}_proxy' for scheme in ('http', 'https', 'all', 'no')]


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    "Without proxies and certificates of the machine's own."
    for name in (*VARIABLES, *map(str.upper, VARIABLES), 'SSL_CERT_FILE', 'SSL_CERT_DIR'): monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('FACTLAB_HOME', str(tmp_path/'home'))
    monkeypatch.setattr('factlab.models.endpoint_calls.FIRST_WAIT', .01)
    yield
    unload_models()


def refused(url: str) -> str:
    "What is said when a server at an address is asked."
    with pytest.raises(ModelError) as error: ask([question('a')], model_at(url), store=False)
    said = str(error.value)
    assert url in said and 'secret' not in said and said.count('\n') == 0
    return said


@contextmanager
def raw_server(reply: bytes):
    "A server that reads a little and answers with these bytes."
    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(4096)
            self.request.sendall(reply)
    with socketserver.ThreadingTCPServer(('127.0.0.1', 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={'poll_interval': .02}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope='module')
def certificates(tmp_path_factory) -> Path:
    "Self-made certificates: for this machine, for another name, for a time that is past."
    if not shutil.which('openssl'): pytest.skip('needs openssl, which this system does not have')
    folder = tmp_path_factory.mktemp('certificates')
    def made(*arguments: object) -> None: subprocess.run(['openssl', *map(str, arguments)], check=True, capture_output=True)
    for name, host, days in (('own', 'localhost', 2), ('other', 'other.example', 2), ('past', 'localhost', -1)):
        key, asked, extra = (folder/f'{name}.{kind}' for kind in ('key', 'csr', 'extensions'))
        extra.write_text(f'subjectAltName=DNS:{host}')
        made('req', '-new', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', asked, '-subj', f'/CN={host}')
        made('x509', '-req', '-in', asked, '-signkey', key, '-days', days, '-out', folder/f'{name}.pem', '-extfile', extra)
    return folder


@contextmanager
def secure_server(certificates: Path, name: str):
    "A server behind TLS with one of the certificates; yields its address."
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates/f'{name}.pem', certificates/f'{name}.key')
    server = MisbehavingServer(lambda call: answer('yes'))
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    with server: yield f'https://localhost:{server.port}/v1'


# ---- ports and names ---------------------------------------------------------------------------------------------------------------

def test_a_closed_port():
    port = free_port()
    said = refused(f'http://127.0.0.1:{port}/v1')
    assert f'nothing listens at 127.0.0.1:{port}' in said and 'start the server' in said and 'base_url' in said


def test_a_name_that_does_not_resolve():
    said = refused('http://no-such-host.invalid/v1')
    assert 'the name no-such-host.invalid does not resolve' in said and 'correct the address' in said


def test_https_where_http_is_spoken():
    with MisbehavingServer() as server:
        said = refused(f'https://127.0.0.1:{server.port}/v1')
    assert 'does not speak TLS' in said and 'http://' in said


# ---- proxies -----------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('variable', ['ALL_PROXY', 'all_proxy', 'HTTPS_PROXY', 'http_proxy'])
def test_a_socks_proxy(monkeypatch, variable):
    pytest.importorskip('httpx2')
    monkeypatch.setattr('builtins.__import__', without('socksio'))
    monkeypatch.setenv(variable, 'socks5://user:secret@127.0.0.1:1080')
    said = refused('https://host.example/v1')
    assert f'SOCKS proxy ({variable}=socks5://127.0.0.1:1080)' in said and 'pip install socksio' in said and f'unset {variable}' in said


def without(package: str):
    "An import that does not find a package, on whichever machine."
    found = __import__
    def search(name, *arguments, **more):
        if name == package: raise ImportError(f'No module named {package}')
        return found(name, *arguments, **more)
    return search


@pytest.mark.parametrize('url', ['socks4://127.0.0.1:1', 'ftp://127.0.0.1:1', 'http://127.0.0.1:port'])
def test_a_proxy_of_no_known_kind(monkeypatch, url):
    monkeypatch.setenv('ALL_PROXY', url)
    said = refused('http://host.example/v1')
    assert f'a proxy of the environment cannot be used (ALL_PROXY={url})' in said and 'http://HOST:PORT' in said


@pytest.mark.parametrize('variable, url', [('HTTP_PROXY', 'http://host.example/v1'), ('https_proxy', 'https://host.example/v1'),
                                           ('ALL_PROXY', 'https://host.example/v1')])
def test_a_dead_proxy(monkeypatch, variable, url):
    port = free_port()
    monkeypatch.setenv(variable, f'http://user:secret@127.0.0.1:{port}')
    said = refused(url)
    assert f'nothing listens at the proxy http://127.0.0.1:{port} of {variable}' in said
    assert f'unset {variable}' in said and 'NO_PROXY' in said


def test_a_proxy_whose_name_does_not_resolve(monkeypatch):
    monkeypatch.setenv('HTTPS_PROXY', 'http://no-such-proxy.invalid:3128')
    said = refused('https://host.example/v1')
    assert 'the name no-such-proxy.invalid does not resolve' in said and 'HTTPS_PROXY' in said


@pytest.mark.parametrize('reply, words', [(b'HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n', '407'),
                                          (b'HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n', '502')])
@pytest.mark.parametrize('scheme', ['http', 'https'])
def test_a_proxy_that_refuses(monkeypatch, reply, words, scheme):
    with raw_server(reply) as port:
        monkeypatch.setenv(f'{scheme}_proxy', f'http://127.0.0.1:{port}')
        if (scheme, words) == ('http', '502'):
            said = ask([question('a')], model_at(f'{scheme}://host.example/v1', retries=1), store=False)[0].error
        else: said = refused(f'{scheme}://host.example/v1')
    assert words in said or 'a user and a password' in said
    assert f'the proxy http://127.0.0.1:{port} of {scheme}_proxy' in said


def test_no_proxy_is_followed_and_passwords_are_hidden(monkeypatch):
    monkeypatch.setenv('HTTP_PROXY', f'http://127.0.0.1:{free_port()}')
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    with MisbehavingServer(lambda call: answer('yes')) as server:
        assert ask([question('a')], model_at(server.url), store=False)[0].text == 'yes'
    assert proxy_of('http://127.0.0.1:1/v1') is None and proxy_of('http://host.example').variable == 'HTTP_PROXY'
    assert without_password('http://a:b@h:1') == 'http://h:1' and without_password('a:b@h:1') == 'h:1' == without_password('h:1')


# ---- certificates ------------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('make, words', [
    (lambda path: None, 'No such file'), (lambda path: path.write_text('no certificate'), 'no certificate'),
    (lambda path: path.mkdir(), 'SSL_CERT_FILE')])
@pytest.mark.parametrize('scheme', ['http', 'https'])
def test_a_file_of_certificates_that_is_none(monkeypatch, tmp_path, make, words, scheme):
    make(path := tmp_path/'trusted.pem')
    monkeypatch.setenv('SSL_CERT_FILE', str(path))
    said = refused(f'{scheme}://host.example/v1')
    assert f'the certificates of SSL_CERT_FILE cannot be read ({path}' in said and words in said and 'unset it' in said


def test_an_untrusted_certificate(monkeypatch, certificates):
    with secure_server(certificates, 'own') as url:
        said = refused(url)
        assert 'is not trusted' in said and 'set SSL_CERT_FILE to a .pem file with its issuer' in said
        monkeypatch.setenv('SSL_CERT_FILE', str(certificates/'other.pem'))
        assert f'SSL_CERT_FILE is {certificates/"other.pem"}, which does not hold its issuer' in refused(url)
        monkeypatch.setenv('SSL_CERT_FILE', str(certificates/'own.pem'))
        assert ask([question('a')], model_at(url), store=False)[0].text == 'yes'


@pytest.mark.parametrize('name, words', [('other', 'for another name'), ('past', 'not valid today')])
def test_a_certificate_for_another_name_or_time(monkeypatch, certificates, name, words):
    monkeypatch.setenv('SSL_CERT_FILE', str(certificates/f'{name}.pem'))
    with secure_server(certificates, name) as url: assert words in refused(url)


# ---- commands ----------------------------------------------------------------------------------------------------------------------

def test_a_command_names_the_cause_and_could_not_finish(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv('SSL_CERT_FILE', str(tmp_path/'nowhere.pem'))
    arguments = ['verify', 'The mill closed.', '--corpus', 'sample', '--extractor', 'sentences', '--retriever', 'bm25', '--verifier',
                 f'prompt:openai:any?base_url=http://127.0.0.1:{free_port()}/v1']
    assert main(arguments) == 3
    errors = capsys.readouterr().err
    assert 'SSL_CERT_FILE' in errors and 'nowhere.pem' in errors and 'Traceback' not in errors and 'output' not in errors


def test_an_error_of_another_kind_is_none():
    assert network_fault(ValueError('x'), 'http://host.example') is None
    with MisbehavingServer(lambda call: status(404, 'no model')) as server: assert 'has no model' in refused(server.url)
