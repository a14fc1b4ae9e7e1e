"""What named persons read and how they judged it: review.toml beside a report. A run never writes or removes it.

The file says format_version = 1 and holds one [[review]] block a text: criterion (id or code), reviewer, date (a TOML
date, without quotes), level (0 to 3), comment, and sha256: the `digest` of run.json at the time of reading. Once the
submission changes, its digest does, and the review is stale.
"""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rubric.criteria import LEVELS, Kind, Rubric
from rubric.evidence import Review
from rubric.report import ReportError

FILE = "review.toml"
BYTES_MAX = 256 * 1024


class ReviewError(ReportError):
    """The reviews cannot be used: one sentence that names the file and the place."""


class _Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    criterion: str
    reviewer: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    date: datetime.date
    level: Annotated[int, msgspec.Meta(ge=0, lt=LEVELS)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    comment: Annotated[str, msgspec.Meta(max_length=8_000)] = ""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format_version: Annotated[int, msgspec.Meta(ge=1, le=1)]
    review: tuple[_Block, ...] = ()


def read(path: Path, rubric: Rubric, run: Mapping[str, Any] | None) -> tuple[Review, ...]:
    """The reviews in that file, none when it is not there; current are those of the very bytes that `run` is about.

    Raises ReviewError: a review that cannot be read must not silently count as none.
    """
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ReviewError(f"The reviews {path} cannot be read ({error.strerror}).") from error
    if len(content) > BYTES_MAX:
        raise ReviewError(f"The reviews {path} are larger than {BYTES_MAX // 1024} KiB; nobody wrote that by hand.")
    try:
        blocks = msgspec.toml.decode(content, type=_File, strict=True).review
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReviewError(f"The reviews {path} do not fit: {' '.join(str(error).split()).rstrip('.')}.") from error
    digest = run.get("digest") if run else None
    known = {name: one for one in rubric.criteria for name in (one.id, one.code)}
    reviews = []
    for number, block in enumerate(blocks, 1):
        criterion = known.get(block.criterion)
        if criterion is None or criterion.kind is not Kind.REVIEWED:
            raise ReviewError(f"The reviews {path} do not fit: block {number} names no criterion that is reviewed.")
        if not block.reviewer.strip():
            raise ReviewError(f"The reviews {path} do not fit: block {number} names no reviewer.")
        reviews.append(
            Review(
                criterion=criterion.id,
                reviewer=block.reviewer.strip(),
                date=block.date.isoformat(),
                level=block.level,
                comment=block.comment,
                sha256=block.sha256,
                current=block.sha256 == digest,
            )
        )
    return tuple(reviews)
