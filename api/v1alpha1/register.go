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

// A Workload is a kind, but not one of the API server: the generator has to
// skip it, writes a file without contents all the same, and that is removed.

// GroupName is the API group.
const GroupName = "berth.dev"

// GroupVersion returns group and version of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme makes the types that live on an API server known to s. It never
// fails.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &NodeTopology{}, &NodeTopologyList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
