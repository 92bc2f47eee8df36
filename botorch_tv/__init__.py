"""Time-varying Gaussian-process bandits for BoTorch.

Forgetting decides what a measurement taken then is worth now. It acts at three places of one
formula, ``mean = k~ᵀ (K ∘ D + N)⁻¹ y``: *decay* of covariance (D), *inflation* of noise with age
(N) and *retention* of rows. Every algorithm here is decay x inflation x retention x exploration.

Papers are cited throughout by these tags:

* [B16] Bogunovic, Scarlett, Cevher, "Time-Varying Gaussian Process Bandit Optimization", 2016.
* [ET] Brunzema, von Rohr, Solowjow, Trimpe, "Event-Triggered Time-Varying Bayesian Optimization".
* [C17] Chowdhury, Gopalan, "On Kernelized Multi-armed Bandits", 2017.
* [W22] Deng, Zhou, Kim, Tewari, Gupta, Shroff, "Weighted Gaussian Process Bandits for
  Non-stationary Environments", 2022.
* [M] Mauduit, Berthier, Simonetto, "No-Regret Gaussian Process Optimization of Time-Varying
  Functions".
"""

__version__ = "0.1.0"
