"""KubeSchedulerConfiguration: read, defaulted, validated and expanded as in kube-scheduler."""

from kplan.config.loading import default_configuration, load_scheduler_config
from kplan.config.model import Extender, PluginRef, Profile, SchedulerConfiguration

__all__ = [
    "Extender",
    "PluginRef",
    "Profile",
    "SchedulerConfiguration",
    "default_configuration",
    "load_scheduler_config",
]
