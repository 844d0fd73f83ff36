package kubelet

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-project/berth/internal/value/cpuset"
)

func TestReadConfig(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	name := filepath.Join(t.TempDir(), "config.yaml")
	no := false
	for _, c := range []struct {
		text string
		want Config
	}{
		{head, Config{}},
		{head + "cpuManagerPolicy: none\nreservedSystemCPUs: 0,2\ncgroupDriver: cgroupfs\ncgroupRoot: /kube\ncpuCFSQuota: false\nmaxPods: 7\nfeatureGates: {A: true}\n", Config{
			CPUManagerPolicy: "none", ReservedSystemCPUs: cpus(t, "0,2"), CgroupDriver: "cgroupfs", CgroupRoot: "/kube", CPUCFSQuota: &no,
		}},
	} {
		write(t, name, c.text)
		got, err := ReadConfig(name)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
	for _, bad := range []string{
		"", "kind: KubeletConfiguration\n", head + "kind: Pod\n", head + "cpuManagerPolicy: [none]\n",
		head + "reservedSystemCPUs: all\n", head + "cgroupDriver: a\ncgroupDriver: b\n", "\t", "7",
		"apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n",
	} {
		write(t, name, bad)
		if got, err := ReadConfig(name); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v, %v; want ErrMalformed", bad, got, err)
		}
	}
	if _, err := ReadConfig(name + ".old"); !errors.Is(err, ErrNoState) {
		t.Errorf("no file: %v", err)
	}
}

func TestReadState(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "cpu_manager_state")
	for _, c := range []struct {
		text string
		want State
	}{
		{`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, State{Policy: "none"}},
		{
			`{"policyName":"static","defaultCpuSet":"0,5-7","entries":{"u-1":{"a":"1-2","b":"3"},"u-2":{"c":"4"}},"checksum":1}`,
			State{Policy: "static", Shared: cpus(t, "0,5-7"), Exclusive: cpus(t, "1-4")},
		},
	} {
		write(t, name, c.text)
		if got, err := ReadState(dir); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.text, got, err)
		}
	}
	for _, bad := range []string{"", "{}", "null", `{"policyName":7}`, `{"policyName":"static","defaultCpuSet":"x"}`, `{"policyName":"static","entries":{"u":{"a":"x"}}}`, `{"policyName":"none"`} {
		write(t, name, bad)
		if got, err := ReadState(dir); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v; want ErrMalformed", bad, got, err)
		}
	}
	if _, err := ReadState(t.TempDir()); !errors.Is(err, ErrNoState) {
		t.Errorf("no file: %v", err)
	}
}
