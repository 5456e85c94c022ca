"""The Flask extensions of the repository, which belong to no app yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flask_login import LoginManager
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from flask_wtf import CSRFProtect
from sqlalchemy.orm import DeclarativeBase

from flask_ibi_archive import IBIArchive


class Base(DeclarativeBase):
    """The base class of the models."""


db = SQLAlchemy(model_class=Base)
if TYPE_CHECKING:  # mypy does not accept db.Model as a base class
    Model = Base
else:
    Model = db.Model
migrate = Migrate(directory=str(Path(__file__).parent / "migrations"))
login = LoginManager()
csrf = CSRFProtect()
# with the session of the repository, a publication and its item are stored in one transaction
ibi = IBIArchive(session=db.session)
