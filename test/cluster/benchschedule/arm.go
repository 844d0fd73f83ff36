package main

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/deploy"
	"github.com/berth-project/berth/internal/proof/bench"
)

// The arms, by short names.
const (
	armOff      = bench.ScheduleOff
	armOrdinary = bench.ScheduleOrdinary
	armHiding   = bench.ScheduleHiding
	armLabelled = bench.ScheduleLabelled
	armPinned   = bench.SchedulePinned
	armAgain    = bench.ScheduleAgain
)

// warmShare is the divisor for the number of pods that are bound before the clock starts: one pod in ten.
const warmShare = 10

// ErrSchedule reports that a run did not measure its scenario.
var ErrSchedule = errors.New("run failed")

// scheduleArm is one arm of one repetition.
type scheduleArm struct {
	name       string
	percentage int
	pods       int
	// side separates two arms that run at the same time: it ends the names of their namespaces, profiles and files.
	side string
}

// The sides of two arms, in the order of their start. An arm that runs alone has none.
const (
	sideOne = "-one"
	sideTwo = "-two"
)

func (a scheduleArm) berth() bool       { return a.name != armOff && a.name != armAgain }
func (a scheduleArm) pinned() bool      { return a.name == armPinned }
func (a scheduleArm) namespace() string { return scheduleNamespace + a.side }

// config returns the scheduler's configuration. With Berth it is the shipped configuration of the mode "replace", for
// one replica and with the limits of this run. Without Berth it has the same profiles with default plugins only.
func (a scheduleArm) config(kubeconfig string) ([]byte, error) {
	manifest, err := deploy.Replace()
	if err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	var shipped v1.ConfigMap
	if err := yaml.Unmarshal(manifest, &shipped); err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(shipped.Data["config.yaml"]), &config); err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": scheduleQPS, "burst": scheduleQPS}
	config["percentageOfNodesToScore"] = a.percentage
	profiles, _ := config["profiles"].([]any)
	for _, p := range profiles {
		profile, ok := p.(map[string]any)
		if !ok {
			continue
		}
		profile["schedulerName"] = fmt.Sprint(profile["schedulerName"]) + a.side
		if !a.berth() {
			delete(profile, "plugins")
			delete(profile, "pluginConfig")
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("configuration of the scheduler: %w", err)
	}
	return text, nil
}

// pod returns the pods of an arm, without a name. They differ only in their scheduler and the keys that Berth reads.
func (a scheduleArm) pod() *v1.Pod {
	pod := a.podOf(podCPUs, podCPUs)
	switch a.name {
	case armPinned:
		pod.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: v1alpha1.CPUSetSchedulerOn}
	case armLabelled:
		pod.Labels = map[string]string{v1alpha1.LabelQoSClass: string(v1alpha1.QoSLS)}
	}
	return pod
}

// hidingPod returns a pod with exclusive CPUs that requests fewer CPUs than it gets. It hides CPUs from a scheduler that
// only adds requests.
func (a scheduleArm) hidingPod() *v1.Pod {
	pod := a.podOf(1, podCPUs)
	pod.Name = "go-demo"
	pod.Annotations = map[string]string{v1alpha1.AnnotationCPUSetScheduler: v1alpha1.CPUSetSchedulerOn}
	return pod
}
