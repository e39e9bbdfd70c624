"""Several threads share the work, and the results do not depend on their number."""

import os
from functools import partial
from threading import Barrier, Event, get_ident

import pytest

from icpe import ConfigError, threads

NUMBERS = (1, 2, 4)


def test_the_environment_says_how_many_threads_compute(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads.count() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")  # one number for each level of nesting
    assert threads.count() == 5
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads.count() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("value", ["0", "two", "-1", "1.5"])
def test_a_wrong_number_of_threads_is_named(monkeypatch, value):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    with pytest.raises(ConfigError, match=f"OMP_NUM_THREADS is '{value}'; expected a whole number from 1 up"):
        threads.count()
    with pytest.raises(ConfigError, match="the number of threads is 0"), threads.use(0):
        pass


def test_a_context_comes_before_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with threads.use(2):
        with threads.use(4):
            assert threads.count() == 4
        assert threads.count() == 2
    assert threads.count() == 3


@pytest.mark.parametrize("number", NUMBERS)
def test_results_have_the_order_of_the_parts(number):
    with threads.use(number):
        assert threads.run_parts(pow, [(base, 2) for base in range(50)]) == [base**2 for base in range(50)]
        assert list(threads.in_order(str, range(50), most=8)) == [str(part) for part in range(50)]


@pytest.mark.parametrize("number", [2, 4])
def test_threads_work_at_the_same_time(number):
    together = Barrier(number, timeout=60)  # nobody passes before all have come

    def meet(part):
        together.wait()
        return get_ident()

    with threads.use(number):
        assert len(set(threads.run_parts(meet, [(part,) for part in range(number)]))) == number
        assert len(set(threads.in_order(meet, range(number), most=number))) == number


def test_memory_limits_the_threads():
    with threads.use(4):
        assert set(threads.in_order(lambda part: get_ident(), range(9), most=1)) == {get_ident()}


def test_results_wait_for_whoever_takes_them():
    begun = []
    with threads.use(2):
        results = threads.in_order(begun.append, range(100), most=2)
        next(results)
        results.close()
    assert len(begun) <= 4


def test_parts_of_a_part_stay_in_its_thread():
    def inner(part):
        return get_ident()

    def outer(part):
        mine = [*threads.run_parts(inner, [(0,), (1,)]), *threads.in_order(inner, range(3), most=2)]
        return set(mine) == {get_ident()}

    with threads.use(2):
        assert all(threads.run_parts(outer, [(part,) for part in range(8)]))
        assert all(threads.in_order(outer, range(8), most=2))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("wrong", [0, 5, 9])
def test_errors_of_a_part_arrive(number, wrong):
    def fail(part):
        if part == wrong:
            raise KeyError(part)

    with threads.use(number):
        with pytest.raises(KeyError, match=str(wrong)):
            threads.run_parts(fail, [(part,) for part in range(10)])
        with pytest.raises(KeyError, match=str(wrong)):
            list(threads.in_order(fail, range(10), most=9))
        assert threads.run_parts(abs, [(-1,), (-2,)]) == [1, 2]


def test_nobody_waits_for_a_thread_that_works_for_somebody_else():
    begun, end = Event(), Event()

    def hold():
        begun.set()
        end.wait(60)
        return get_ident()

    with threads.use(2):
        held = threads.beforehand([hold])
        begun.wait(60)
        mine = threads.run_parts(lambda part: get_ident(), [(part,) for part in range(4)])
        end.set()
        assert set(mine) == {get_ident()} != {next(held)}


@pytest.mark.parametrize("number", NUMBERS)
def test_work_beforehand_keeps_its_order(number):
    drawn = []

    def draw(one):
        drawn.append(one)
        return -one

    with threads.use(number):
        made = threads.beforehand([partial(draw, one) for one in range(20)])
        assert [next(made) for _ in range(20)] == [-one for one in range(20)]
        assert next(made, None) is None
    assert drawn == list(range(20))


@pytest.mark.parametrize("number", NUMBERS)
def test_errors_of_work_beforehand_arrive(number):
    with threads.use(number):
        made = threads.beforehand([partial(divmod, 7, divisor) for divisor in (2, 0, 3)])
        assert next(made) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            next(made)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12
def test_a_fork_has_threads_of_its_own():
    with threads.use(2):
        threads.run_parts(abs, [(-1,), (-2,)])
        child = os.fork()
        if not child:
            together = Barrier(2, timeout=10)
            try:
                os._exit(len(threads.run_parts(lambda part: together.wait(), [(0,), (1,)])) - 2)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
