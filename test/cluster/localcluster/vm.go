package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-project/berth/test/cluster/local"
	"github.com/berth-project/berth/test/cluster/vmnode"
)

// vmName is the name of the node in a virtual machine.
const vmName = "berth-vm"

// vmCores is the number of cores per socket, with two threads each. The documentation needs at most 4 pods with 4
// exclusive CPUs, and one core for all other containers.
const vmCores = 5

// addVM adds a node in a virtual machine to the cluster, unless it exists, and waits until it is ready.
func addVM(ctx context.Context) error {
	c, err := local.Running()
	if err != nil {
		return err
	}
	if err := local.Enter(); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	n, err := vmnode.Open(c.Dir(vmName))
	if err == nil && n.On() {
		return n.WaitReady(ctx, client)
	}
	if n, err = startVM(ctx, c); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "the machine runs; waiting for the node")
	if err := n.WaitReady(ctx, client); err != nil {
		always := context.WithoutCancel(ctx)
		return errors.Join(err, n.Remove(always), client.CoreV1().Nodes().Delete(always, vmName, metav1.DeleteOptions{}))
	}
	return nil
}

func startVM(ctx context.Context, c *local.Cluster) (*vmnode.Node, error) {
	j, err := c.Join(vmName)
	if err != nil {
		return nil, err
	}
	p := j.Programs
	fmt.Fprintln(os.Stderr, "starting a virtual machine as the node", vmName)
	machine := vmnode.Machine()
	machine.Cores = vmCores
	return vmnode.Start(ctx, vmnode.Options{
		Machine: machine, Name: j.Name, Dir: c.Dir(vmName), IP: j.IP, Detached: true,
		Kubeconfig: j.Kubeconfig, ProxyKubeconfig: j.ProxyKubeconfig, CA: j.CA,
		ServingCert: j.ServingCert, ServingKey: j.ServingKey,
		Programs: vmnode.Programs{
			Containerd: p.Containerd, Shim: p.Shim, Runc: p.Runc, Kubelet: p.Kubelet,
			KubeProxy: p.KubeProxy, Ctr: p.Ctr, Berth: p.Berth, CNI: p.CNI,
		},
		Registry: j.Registry, HostsTOML: j.HostsTOML, Sandbox: local.PauseImage,
		PodCIDR: j.PodCIDR, ServiceCIDR: j.ServiceCIDR,
	})
}

// removeVMs ends the virtual machines of the cluster.
func removeVMs(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(local.Dir, "nodes", "*"))
	for _, dir := range dirs {
		n, openErr := vmnode.Open(dir)
		if errors.Is(openErr, fs.ErrNotExist) {
			continue
		}
		if openErr == nil {
			openErr = n.Remove(ctx)
		}
		err = errors.Join(err, openErr)
	}
	return err
}
