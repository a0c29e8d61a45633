"Sphinx's configuration. `build.py` copies it beside the pages that it collects."
project = 'factlab'
author = 'the factlab developers'
copyright = '2026, the factlab developers'  # noqa: A001
extensions = ['myst_nb', 'sphinx_copybutton']

# Notebooks are shown as they were committed: nothing runs.
nb_execution_mode = 'off'
nb_mime_priority_overrides = [('html', 'application/vnd.jupyter.widget-view+json', None), ('html', 'image/svg+xml', 5), ('html', 'text/html', 10)]
nb_ipywidgets_js: dict = {}
nb_number_source_lines = False
nb_merge_streams = True
nb_code_prompt_show = 'Imports'
nb_code_prompt_hide = 'Imports'
myst_heading_anchors = 4
myst_enable_extensions = ['colon_fence']
myst_links_external_new_tab = False
suppress_warnings = ['myst.header', 'mystnb.unknown_mime_type', 'toc.not_included']

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
