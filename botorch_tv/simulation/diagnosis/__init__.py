"""Why strategies did what they did: alarms, calibration of the bands, simple regret.

Everything here reads what the recorder ``Diagnosis`` records besides regret. The pictures are
reached through the methods ``plot_triggers``, ``plot_calibration`` and ``plot_simple_regret`` of a
study's result, and need matplotlib only then.
"""
