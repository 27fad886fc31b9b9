"""web/locale/<language>.po -> translations of the texts of templates. The catalogues are read as translators write
them; nothing has to be compiled."""

from __future__ import annotations

import gettext
import io
from functools import cache
from pathlib import Path

from babel.messages import mofile, pofile

FOLDER = Path(__file__).parent.parent / "locale"


@cache
def of(language: str) -> gettext.NullTranslations:
    """Of a language; of one without a catalogue every text as it is, which is English."""
    file = FOLDER / f"{language}.po"
    if not file.is_file():
        return gettext.NullTranslations()
    with file.open("rb") as text:
        catalogue = pofile.read_po(text, locale=language)
    compiled = io.BytesIO()
    mofile.write_mo(compiled, catalogue)
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)
