// +groupName=berth.dev
// +versionName=v1alpha1
//
// The lines above are for the generator below.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go tool -modfile=../../tools/go.mod controller-gen object paths=. crd:crdVersions=v1 output:crd:dir=../../deploy/crd
//go:generate rm -f ../../deploy/crd/_.yaml

// A Workload is a kind, but not a kind of the API server. The generator has to skip it, but still writes an empty file,
// which is then removed.

// GroupName is the API group.
const GroupName = "berth.dev"

// GroupVersion returns the group and the version of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme registers the types that exist on an API server with s. It never fails.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &NodeTopology{}, &NodeTopologyList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
