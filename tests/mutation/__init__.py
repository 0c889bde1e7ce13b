"""Do the tests notice when a rule is wrong? Break it on purpose, in many small ways.

    python -m tests.mutation svcserver/metagame/social/guilds/rules.py \\
        --tests tests/metagame/social/guilds

A mutant is the file with one fault: a comparison, a sum, a constant, a word or a branch
changed, a statement or a return left out. It is killed only by a test that fails, dies or
does not end; whoever survives shows what no test looks at.
`docs/contributors/mutants.md` keeps the results. Reproducible: hypothesis runs with fixed
seeds, and ``--most`` takes a sample with ``--seed``.
"""
