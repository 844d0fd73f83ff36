package vmnode

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// takeAddress lets the host reach the node at its address, which the host must have for QEMU
// to listen there: the loopback device gets it if no device has it. It returns the device.
//
// Who connects to an address of the host's own comes from that same address, and QEMU would
// pass such a connection on as it is: from the guest's own address, which the guest drops.
// So the host's route says to come from 127.0.0.1, which QEMU makes 10.0.2.2.
func takeAddress(ctx context.Context, ip string) (device string, err error) {
	device, err = deviceOf(ip)
	if err != nil {
		return "", err
	}
	if device == "" {
		device = loopback
		if err := run(ctx, "ip", "address", "replace", ip+"/32", "dev", device); err != nil {
			return "", err
		}
	}
	return device, comeFrom(ctx, "127.0.0.1", ip, device)
}

// giveAddress undoes takeAddress. An address of the loopback device is ours: it has no
// others but its own.
func giveAddress(ctx context.Context, ip, device string) error {
	if has, err := deviceOf(ip); err != nil || has != device {
		return err // Another process has removed it.
	}
	if err := comeFrom(ctx, ip, ip, device); err != nil {
		return err
	}
	if device != loopback {
		return nil
	}
	return run(ctx, "ip", "address", "delete", ip+"/32", "dev", device)
}

const loopback = "lo"

// comeFrom sets the address that connections to an address of the host come from.
func comeFrom(ctx context.Context, source, ip, device string) error {
	return run(ctx, "ip", "route", "replace", "local", ip, "dev", device,
		"table", "local", "proto", "kernel", "scope", "host", "src", source)
}

// deviceOf returns the name of the device that has an address, or nothing.
func deviceOf(ip string) (string, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("devices of this host: %w", err)
	}
	for _, device := range devices {
		addresses, err := device.Addrs()
		if err != nil {
			return "", fmt.Errorf("addresses of %s: %w", device.Name, err)
		}
		for _, address := range addresses {
			if strings.HasPrefix(address.String(), ip+"/") {
				return device.Name, nil
			}
		}
	}
	return "", nil
}
