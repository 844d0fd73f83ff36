package node

import (
	"path"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const (
	qosKey         = "resource-qos-config"
	cpuQOSKey      = "koordinator.sh/cpuQOS"
	optedOut       = `{"enable": false}`
	optedIn        = `{"enable": true}`
	mistakenCPUQOS = `{"enable": true, "groupIdentity": 9}`
)

// podGroup returns the directory of a pod's group, below the root of each hierarchy.
func (s *stage) podGroup(t *testing.T, p *v1.Pod) string {
	t.Helper()
	return path.Dir(s.groupOf(t, id(p, "app")).dir)
}

// yields waits until the kernel has all pods of a Deployment as idle groups, or none, and compares the weights of
// groups that are not idle with the kubelet's. The groups of the QoS classes above them are never idle: the kubelet could
// not write their weights then.
func (s *stage) yields(t *testing.T, name string, idle bool) {
	t.Helper()
	want := "0"
	if idle {
		want = "1"
	}
	for _, p := range s.deployed(t, name) {
		dir := s.podGroup(t, p)
		s.eventually(t, p.Name+" with cpu.idle "+want, func() string {
			if has := read(cpus(), dir, "cpu.idle"); has != want {
				return "it is " + has
			}
			if has, kubelet := read(cpus(), dir, "cpu.shares"), shares(p); !idle && has != kubelet {
				return "cpu.shares is " + has + ", and the kubelet's " + kubelet
			}
			return ""
		})
		for above := path.Dir(dir); above != "/" && above != "."; above = path.Dir(above) {
			if has := read(cpus(), above, "cpu.idle"); has == "1" {
				t.Errorf("%s, above %s, is idle", above, p.Name)
			}
		}
	}
}

// shares returns the weight that the kubelet gives a pod: 1024 for each requested CPU, at least 2.
func shares(p *v1.Pod) string {
	millis := int64(0)
	for i := range p.Spec.Containers {
		millis += p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return strconv.FormatInt(max(2, millis*1024/1000), 10)
}
