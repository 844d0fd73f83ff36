// Package cri asks the container runtime where the groups of its containers are.
package cri

import (
	_ "google.golang.org/grpc"
	_ "k8s.io/cri-api/pkg/apis/runtime/v1"
)
