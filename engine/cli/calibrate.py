"""`planproof calibrate`: a few parameters of a device under a software family, fitted to measured runs, as a data sheet."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="CSV...")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The data sheet to write.")
@click.option("--device", help="The device whose runs count, where the files hold several.")
@click.option("--software", help="The software family whose runs count, where the files hold several.")
@click.option(
    "--hardware", multiple=True, type=click.Path(exists=True, file_okay=False), help="A folder of your own data sheets."
)
@click.option("--as-of", type=click.DateTime(["%Y-%m-%d"]), help="The date that the sheet bears; today by default.")
def calibrate(
    files: tuple[Path, ...],
    output: Path,
    device: str | None,
    software: str | None,
    hardware: tuple[str, ...],
    as_of: datetime | None,
) -> None:
    """Fit what a device gets under a software family to measured runs, and write it as a data sheet.

    CSV: measured runs, one a row, in a layout known by its columns (docs/accuracy.md). Prints what was fitted, on which rows,
    what was left out and why, and the error on groups that the fit did not see. Put the sheet in a folder and name the folder
    with --hardware: proposals of that framework are then priced with it.
    """
    from ..calibration.calibrate import calibrate_files
    from ..report.escape import terminal
    from ..report.output import demand_writable, write_whole

    demand_writable(output)  # before the fit, which takes a while
    day = as_of.date() if as_of is not None else date.today()
    found = calibrate_files(files, device=device, software=software, hardware=hardware, day=day)
    for line in found.lines:
        click.echo(terminal(line))
    write_whole(output, found.sheet)
    click.echo(terminal(f"written: {output}"))
