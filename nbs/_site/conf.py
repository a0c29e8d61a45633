"Sphinx's configuration. `build.py` copies it beside the pages that it collects."
from sphinx.domains.python import PythonDomain

project = 'factlab'
author = 'the factlab developers'
copyright = '2026, the factlab developers'  # noqa: A001
extensions = ['myst_nb', 'sphinx_copybutton']

# Notebooks are shown as they were committed: nothing runs.
nb_execution_mode = 'off'
nb_mime_priority_overrides = [
    ('html', 'application/vnd.jupyter.widget-view+json', None),
    ('html', 'image/svg+xml', 5),
    ('html', 'text/html', 10),
]
nb_ipywidgets_js: dict = {}
nb_number_source_lines = False
nb_merge_streams = True
nb_code_prompt_show = 'Imports'
nb_code_prompt_hide = 'Imports'
myst_heading_anchors = 4
myst_enable_extensions = ['attrs_inline', 'colon_fence']
myst_links_external_new_tab = False
suppress_warnings = [
    'myst.header',
    'mystnb.unknown_mime_type',
    'toc.not_included',
    'ref.python',
]  # several modules have a class of one name, as Study

add_module_names = False
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
toc_object_entries_show_parents = 'hide'

html_theme = 'furo'
html_title = 'factlab'
html_static_path = ['_static']
html_css_files = ['factlab.css']
templates_path = ['_templates']
html_domain_indices = False
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_scaled_image_link = False  # a picture of given size may lead elsewhere than to itself
html_theme_options = {'navigation_with_keys': True}
copybutton_prompt_text = '$ '
pygments_style, pygments_dark_style = 'friendly', 'monokai'


# The sidebar. Sphinx would copy and resolve the whole tree anew for each of some 250 pages, and the theme parse what comes of it.
def sidebar(app, pagename: str) -> str:
    "The tree of all pages as seen from one page, in the form that the theme gives it: with a box to fold what lies below a page."
    from html import escape
    from itertools import count

    from sphinx import addnodes
    env = app.env
    above, page = {pagename}, pagename
    parents = {child: parent for parent, children in env.toctree_includes.items() for child in children}
    while page in parents and parents[page] not in above: above.add(page := parents[page])
    numbers = count(1)

    def entries(node: addnodes.toctree, depth: int) -> str:
        items = []
        for title, page in node['entries']:
            if page not in env.titles: continue
            mark, address = ' current' if page in above else '', '#' if page == pagename else app.builder.get_relative_uri(pagename, page)
            text = escape(title or env.titles[page].astext())
            classes = mark + ' has-children'*bool(trees(page)) + ' current-page'*(page == pagename)
            box = folding(f'toctree-checkbox-{next(numbers)}', text, bool(mark)) if trees(page) else ''
            below = ''.join(entries(tree, depth + 1) for tree in trees(page))
            items.append(
                f'<li class="toctree-l{depth}{classes}"><a class="reference internal{mark if page == pagename else ""}" '
                f'href="{address}">{text}</a>{box}{below}</li>'
            )
        return f'<ul>{"".join(items)}</ul>'

    def trees(page: str) -> list: return forest.get(page, [])
    forest = _forest(env)
    return ''.join(
        f'<p class="caption" role="heading"><span class="caption-text">{escape(tree.get("caption") or "")}</span></p>{entries(tree, 1)}'
        for tree in trees('index')
    )


def folding(name: str, text: str, unfolded: bool) -> str:
    "The theme's box beside a page of the sidebar."
    checked, arrow = ' checked' if unfolded else '', '<span class="icon"><svg><use href="#svg-arrow-right"></use></svg></span>'
    box = f'<input aria-label="Toggle navigation of {text}"{checked} class="toctree-checkbox" id="{name}" name="{name}" role="switch"'
    return f'{box} type="checkbox"/><label for="{name}">{arrow}</label>'


def _forest(env) -> dict[str, list]:
    if not hasattr(env, 'factlab_forest'):
        from sphinx import addnodes
        env.factlab_forest = {page: list(env.get_doctree(page).findall(addnodes.toctree)) for page in env.toctree_includes}
    return env.factlab_forest


def no_tree(app, pagename, templatename, context, doctree) -> None:
    if 'toctree' in context: context['toctree'] = lambda **options: ''


def own_sidebar(app, pagename, templatename, context, doctree) -> None:
    if 'toctree' in context: context['furo_navigation_tree'] = sidebar(app, pagename)


class KnownNames(PythonDomain):
    "Looks for names that some object has. Sphinx would compare each of the others, as `str`, with the names of all objects."
    endings: frozenset[str] = frozenset()
    counted = 0  # objects

    def find_obj(self, env, modname, classname, name, type, searchmode=0):
        if len(self.objects) != self.counted:
            self.counted = len(self.objects)
            self.endings = frozenset(name.split('.', at)[-1] for name in self.objects for at in range(name.count('.') + 1))
        if searchmode == 1 and name.removesuffix('()') not in self.endings: return []
        return super().find_obj(env, modname, classname, name, type, searchmode)


def setup(app) -> None:
    app.add_domain(KnownNames, override=True)
    app.connect('html-page-context', no_tree, priority=400)  # before the theme, which asks for the tree
    app.connect('html-page-context', own_sidebar, priority=600)  # after it
