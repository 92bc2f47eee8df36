"""Would the tests notice? Single small faults in the core, each of which some test should see.

`python -m benchmarks.mutation --out FOLDER` draws faults evenly over the core by its lines, runs
against each the tests that execute its line, and lists the faults that no test saw.
"""
