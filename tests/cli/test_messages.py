"""Messages on the command line name flags, blame the right place and give remedies that work when they are copied."""

import os
import re
import shlex
import threading
from pathlib import Path

import pytest

from icpe.cli._flag_names import with_flags

QUICK = ["--train.epochs", "1", "--backbone.dim", "4"]
LONG = "-n is 500, but the training part has 40 items, so no list can be that long. Pass -n 40"
ROWS = "".join(f"{user},{item},1700000000\n" for user, item in ((1, 1), (1, 2), (2, 1), (2, 3)))


@pytest.fixture
def fails(icpe):
    """Run a command that a mistake of the user stops; return the first line of the message."""

    def run(*words: object) -> str:
        code, out, err = icpe(*words)
        assert (code, out) == (2, ""), err
        assert "\\u0009" not in err
        return err.splitlines()[0].removeprefix("error: ")

    return run


def copied(message: str) -> list[str]:
    """The flags behind the last "Pass" of a message, as a shell reads them."""
    return shlex.split(re.split(r"[Pp]ass ", message)[-1].split(", where")[0])


def test_the_choices_of_a_missing_option_fit_into_the_line(fails, icpe):
    Path("run").mkdir()
    wanted = "missing option '--to'; choose vectors, faiss or onnx"
    assert fails("export", "run", "-o", "out") == wanted
    assert wanted[1:] in icpe("export", "run", "-o", "out", "--json")[2]


def test_a_pipe_is_no_empty_file(fails):
    os.mkfifo("rows")
    content = f"user_id,item_id,timestamp\n{ROWS}"

    def feed() -> None:
        Path("rows").write_text(content)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    message = fails("data", "describe", "rows")
    with Path("rows").open() as pipe:  # lets the thread end
        assert pipe.read() == content
    feeder.join()
    assert "rows is a pipe" in message
    assert "Write the rows to a file first" in message
    assert "is not a file" in fails("data", "describe", "/dev/null")


@pytest.mark.parametrize("name", ["Kunde Nr", "Kunde (Nr)", "it's user_id", 'a "user_id"', "$user_id;"])
def test_columns_with_odd_names_can_be_copied(icpe, fails, name):
    field = '"' + name.replace('"', '""') + '"'
    Path("log.csv").write_text(f"{field},Artikel-ID\n1,1\n1,2\n2,1\n")
    remedy = copied(
        fails("data", "describe", "log.csv", "--column", "item_id=Artikel-ID", "--column", f"user_id={name}x")
    )
    assert remedy == ["--column", f"user_id={name}"]
    assert icpe("data", "describe", "log.csv", *remedy, "--column", "item_id=Artikel-ID")[0] == 0


@pytest.mark.parametrize(("right", "wrong"), [(";", ","), ("\t", ";"), (",", "|"), ("|", "\t")])
def test_a_wrong_separator_is_named_with_the_right_one(icpe, fails, right, wrong):
    Path("log.csv").write_text(f"Kunde Nr,Artikel-ID,wann\n{ROWS}".replace(",", right))
    columns = ["--column", "user_id=Kunde Nr", "--column", "item_id=Artikel-ID"]
    message = fails("data", "describe", "log.csv", *columns, "--separator", wrong)
    assert "does not split into columns" in message
    assert copied(message) == ["--separator", right.replace("\t", "\\t")]
    assert icpe("data", "describe", "log.csv", *columns, *copied(message))[0] == 0


def test_a_column_used_twice(fails):
    Path("log.csv").write_text(f"user_id,item_id,when\n{ROWS}")
    message = fails("data", "describe", "log.csv", "--column", "timestamp=item_id")
    assert "column 'item_id' of log.csv is used twice, as item_id and as timestamp" in message
    assert copied(message) == ["--column", "timestamp=NAME"]


@pytest.mark.parametrize("date", ["04.11.2024 12:59", "11/04/2024 12:59 PM"])
def test_dates_in_other_forms(fails, date):
    Path("log.csv").write_text(f"user_id,item_id,timestamp\n{ROWS}".replace("1700000000", date))
    message = fails("data", "describe", "log.csv")
    assert f"row 2: 'timestamp' is '{date}'" in message
    assert message.endswith("Convert other dates to ISO 8601, such as 2024-11-04 12:59, or leave the column out")


@pytest.fixture(scope="module")
def run(tmp_path_factory, log_file):
    from icpe.cli import run as icpe_run

    folder = tmp_path_factory.mktemp("trained") / "run"
    assert icpe_run(["train", str(log_file), *QUICK, "-o", str(folder)]) == 0
    return folder


def test_unknown_ids_get_an_example_and_no_python(fails, run):
    for words in (
        ["report", run, "--user", "777", "-o", "page.html"],
        ["recommend", run, "--user", "777"],
        ["recommend", run, "--history", "777"],
    ):
        message = fails(*words)
        assert "777 is not in the training data" in message or "not in the training data: user 777" in message
        assert re.search(r"ids look like \d+", message)
        assert not re.search(r"unknown=|fold_in", message)
    Path("users.csv").write_text("user_id\n777\n")
    message = fails("recommend", run, "--users", "users.csv", "--unknown", "raise")
    assert "--users users.csv" in message


def test_an_unknown_item_may_be_a_missing_file(fails, run):
    assert "there is no file of this name. Name items" in fails("recommend", run, "--history", "777")


@pytest.mark.parametrize("flags", [["--config", "no.toml"], ["--items", "no.csv"], ["--preset", "no.toml"]])
def test_missing_files_are_called_missing(fails, log_file, flags):
    message = fails("train", log_file, *flags)
    assert f"{flags[1]} does not exist. Check the path" in message
    assert "Errno" not in message


def test_a_missing_file_of_cells(fails, log_file):
    assert "no.toml does not exist. Check the path" in fails("compare", log_file, "--cells", "no.toml", "-o", "cmp")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[train]\nlrr = 1\n", "[train] has no setting 'lrr'; did you mean 'lr'?"),
        ("[train]\nlr = -1\n", "lr is -1; expected a number above 0"),
        ("[split]\nkind = 'odd'\n", "unknown split 'odd'"),
        ("[backbone]\ndims = 4\n", "backbone 'mf' has no setting 'dims'; did you mean 'dim'?"),
        ("[method]\nname = 'icpe'\nalphaa = 1\n", "method 'icpe' has no setting 'alphaa'; did you mean 'alpha'?"),
        ("[method]\nname = 'icp'\n", "unknown method 'icp'; did you mean 'icpe'?"),
        ("[data]\nsorce = 'x'\n", "unknown setting of [data] 'sorce'; did you mean 'source'?"),
    ],
)
def test_mistakes_in_a_file_of_settings_name_the_file(fails, log_file, text, said):
    Path("settings.toml").write_text(text)
    assert fails("train", log_file, "--config", "settings.toml").startswith(f"settings.toml: {said}")


def test_flags_replace_what_is_wrong_only_beside_other_values(icpe, log_file):
    Path("settings.toml").write_text("[split]\ntrain = 0.95\n[method]\nname = 'icpe'\nalphaa = 1\n")
    flags = ["--split.valid", "0.02", "--method", "normal", "--config", "settings.toml"]
    code, _, err = icpe("train", log_file, *QUICK, *flags, "-o", "run")
    assert code == 0, err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "LOG", "--niche-share", "2"], "--niche-share is 2; expected a share from 0 to 1, such as 0.4"),
        (["train", "LOG", "--niche-share", "40%"], "--niche-share is 40%; expected a share from 0 to 1, such as 0.4"),
        (["train", "LOG", "--niche-share", "nan"], "--niche-share is nan; expected a share from 0 to 1, such as 0.4"),
        (["dial", "RUN", "--niche-share", "40%"], "--niche-share is 40%; expected a share from 0 to 1, such as 0.4"),
        (["dial", "RUN", "--keep", "2"], "--keep is 2; expected a share from 0 to 1, such as 0.95"),
        (["data", "make", "--users", "0", "-o", "w"], "--users is 0; expected a whole number from 2 up"),
        (
            ["data", "make", "--items", "3000000000", "-o", "w"],
            "--items is 3000000000; expected a whole number from 2 to 2,147,483,647",
        ),
        (
            ["train", "LOG", "--split.train", "0.9", "--split.valid", "0.2"],
            "--split.train is 0.9 and --split.valid is 0.2; expected shares that leave something for test, such as 0.8 "
            "and 0.1",
        ),
        (
            ["split", "LOG", "--split.train", "0.9", "--split.valid", "0.2"],
            "--split.train is 0.9 and --split.valid is 0.2; expected shares that leave something for test, such as 0.8 "
            "and 0.1",
        ),
        (["train", "LOG", "-n", "500", "-o", "new"], LONG),
        (["evaluate", "RUN", "-n", "500"], LONG),
        (
            ["compare", "LOG", "--methods", "normal,popularity", "--subject", "icpe", "-o", "cmp"],
            "--subject is 'icpe', but this command compares normal, popularity. Name one of these, or add 'icpe' to "
            "--methods",
        ),
    ],
)
def test_values_are_called_by_their_flags(fails, log_file, run, words, said):
    named = {"LOG": log_file, "RUN": run}
    assert fails(*(named.get(word, word) for word in words)) == said
    assert not Path("cmp").exists()


def test_the_length_of_audited_lists_is_called_n(fails):
    Path("log.csv").write_text(f"user_id,item_id,timestamp\n{ROWS}")
    Path("recs.csv").write_text("user_id,item_id\n1,3\n2,2\n")
    message = fails("audit", "--log", "log.csv", "--recs", "recs.csv", "-n", "500")
    assert message == "-n is 500, but the longest list has 1 items; expected at most 1"


def test_resuming_with_another_method_says_so_in_a_sentence(fails, run, log_file):
    message = fails("train", log_file, *QUICK, "--method", "icpe", "-o", run, "--resume")
    assert "it was trained with method 'normal', but this run has 'icpe'" in message
    assert message.endswith("Use the same data and settings, or another folder")
    assert "{" not in message
    assert len(message) < 600


def test_only_names_that_are_said_to_have_a_value_become_flags():
    assert with_flags("n is 3, as in train\ntrain is 2", {"n": "-n", "train": "--split.train"}) == (
        "-n is 3, as in train\n--split.train is 2"
    )
    assert (
        with_flags("cap is 3, but mode is ips", {"cap": "--cap", "mode": "--mode"}) == "--cap is 3, but --mode is ips"
    )
