// Package nri connects to the container runtime's Node Resource Interface.
package nri

import (
	_ "github.com/containerd/nri/pkg/api"
	_ "github.com/containerd/nri/pkg/stub"
)
