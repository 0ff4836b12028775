"""The documentation site: `make docs` builds it, offline, with warnings as errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src"), str(HERE.parent)]
os.environ.setdefault("COLUMNS", "88")  # the width of usage lines

import kernelite  # noqa: E402

project = "kernelite"
author = "The kernelite developers"
copyright = "2026, the kernelite developers"
version = release = kernelite.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "commands",
    "live",
    "mathml",
    "members",
    "outputs",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_ext", "auto_gallery/**/*.ipynb", "auto_gallery/**/*.json"]
myst_enable_extensions = ["deflist", "dollarmath", "colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 3
smartquotes_action = "qe"  # two dashes are an option of a command
myst_links_external_new_tab = False

default_role = "code"  # single backticks in docstrings
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say the types, with shapes
numpydoc_show_class_members = False  # the template of classes lists them
numpydoc_xref_param_type = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "kernelite"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "logo": {
        "text": "kernelite",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}

copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.output) > div.highlight > pre"

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # no times: they are this machine's, and change on every run
    "write_computation_times": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "reset_modules": ("matplotlib", "gallery_style.style"),
    "expected_failing_examples": [],
    "doc_module": (),
    "backreferences_dir": None,
}
