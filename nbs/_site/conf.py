"Sphinx's configuration. `build.py` copies it beside the pages that it collects."
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
myst_enable_extensions = ['colon_fence']
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
html_theme_options = {'navigation_with_keys': True}
copybutton_prompt_text = '$ '
pygments_style, pygments_dark_style = 'friendly', 'monokai'


# The sidebar. Sphinx would copy and resolve the whole tree anew for each of some 250 pages, which took most of the time.
def sidebar(app, pagename: str) -> str:
    "The tree of all pages as seen from one page, in the form that Sphinx gives it."
    from html import escape

    from sphinx import addnodes
    env = app.env
    above, page = {pagename}, pagename
    parents = {child: parent for parent, children in env.toctree_includes.items() for child in children}
    while page in parents and parents[page] not in above: above.add(page := parents[page])

    def entries(node: addnodes.toctree, depth: int) -> str:
        items = []
        for title, page in node['entries']:
            if page not in env.titles: continue
            mark, address = ' current' if page in above else '', '#' if page == pagename else app.builder.get_relative_uri(pagename, page)
            below = ''.join(entries(tree, depth + 1) for tree in trees(page))
            text = escape(title or env.titles[page].astext())
            items.append(
                f'<li class="toctree-l{depth}{mark}"><a class="reference internal{mark if page == pagename else ""}" '
                f'href="{address}">{text}</a>{below}</li>'
            )
        return f'<ul>{"".join(items)}</ul>'

    def trees(page: str) -> list: return forest.get(page, [])
    forest = _forest(env)
    return ''.join(
        f'<p class="caption" role="heading"><span class="caption-text">{escape(tree.get("caption") or "")}</span></p>{entries(tree, 1)}'
        for tree in trees('index')
    )


def _forest(env) -> dict[str, list]:
    if not hasattr(env, 'factlab_forest'):
        from sphinx import addnodes
        env.factlab_forest = {page: list(env.get_doctree(page).findall(addnodes.toctree)) for page in env.toctree_includes}
    return env.factlab_forest


def own_sidebar(app, pagename, templatename, context, doctree) -> None:
    if 'toctree' in context: context['toctree'] = lambda **options: sidebar(app, pagename)


def setup(app) -> None:
    app.connect('html-page-context', own_sidebar, priority=400)  # before the theme's own, which asks for the tree
