"""Texts that would act if they were taken for anything but text."""


def hostile(there: str = 'http://127.0.0.1:9') -> list[str]:
    "Scripts, links, pictures and codes that try to run, or to fetch something from an address."
    return [
        '<script>window.hacked = 1; alert(1)</script> said so',
        f'<img src="{there}/a.png" onerror="window.hacked = 2"> in the yard',
        '[the report](javascript:window.hacked=3) says',
        f'![the picture]({there}/b.png) shows',
        f'</text></svg></textarea></select><iframe src="{there}/c"></iframe> ended',
        '<a href="javascript:window.hacked=4">click</a> & <svg onload="window.hacked=5">',
        f'$\\href{{{there}/d}}{{x}}$ and `code` <style>@import url({there}/e)</style>',
        '\x1b[31mred\x1b[0m \x1b]8;;' + there + '/f\x07link\x1b]8;;\x07 \u202ereversed\u202c \ud83d half \x00 null',
        'שלום עולם, the end; مرحبا 👩‍👩‍👧‍👦 🇫🇮',
        f"' onmouseover='window.hacked=6' \" onfocus=\"window.hacked=7\" style=\"background:url({there}/g)\"",
    ]
