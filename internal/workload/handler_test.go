package workload

import "testing"

func TestStartsVM(t *testing.T) {
	for name, want := range map[string]bool{
		"":                           false,
		"-":                          false,
		"runc":                       false,
		"nvidia":                     false,
		"gvisor":                     false,
		"kata":                       true,
		"kata-qemu":                  true,
		"kata-clh":                   true,
		"kata-fc":                    true,
		"Kata":                       true,
		"prod-kata":                  true,
		"confidential-kata-snp":      true,
		"io.containerd.kata.v2":      true,
		"io.containerd.kata-qemu.v2": true,
		"katacontainers":             true,
		"katana":                     false,
		"my-katana":                  false,
		"firecracker":                true,
		"aws-firecracker":            true,
		"firecrackers":               false,
		"cloud-hypervisor":           true,
		"cloud-hypervisor-large":     true,
		"cloud":                      false,
		"hypervisor":                 false,
		"no-hypervisor":              false,
		"hypervisor-cloud":           false,
		"qemu":                       true,
		"qemu-microvm":               true,
		"my-qemu":                    true,
		"my-qemu-notes":              false,
		"qemulator":                  false,
		"peerpod":                    true,
		"peerpods":                   true,
		"my_kata_class":              true,
		"speerpods":                  false,
	} {
		if got := StartsVM(name); got != want {
			t.Errorf("StartsVM(%q) = %v, want %v", name, got, want)
		}
	}
}
