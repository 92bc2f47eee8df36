"""Tables about alarms, the calibration of bands, and simple regret.

They are computed from the variables of the recorder ``Diagnosis``. The methods ``plot_triggers``,
``plot_calibration`` and ``plot_simple_regret`` of a study's result plot them.
"""
