package vmnode

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// takeAddress lets the host reach the node at the node's address. QEMU can listen there only if the host has the
// address, so the loopback device gets it if no device has it. takeAddress returns the device.
//
// A connection to one of the host's own addresses has that same address as its source. QEMU would pass the connection
// on unchanged, and the guest would drop it, because it would come from the guest's own address. The host's route
// therefore sets the source 127.0.0.1, which QEMU translates to 10.0.2.2.
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

// giveAddress undoes takeAddress. Any address of the loopback device other than its own was added by takeAddress.
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

// comeFrom sets the source address of connections to an address of the host.
func comeFrom(ctx context.Context, source, ip, device string) error {
	return run(ctx, "ip", "route", "replace", "local", ip, "dev", device,
		"table", "local", "proto", "kernel", "scope", "host", "src", source)
}

// deviceOf returns the name of the device that has an address, or "".
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
