//+groupName=berth.dev
//+versionName=v1alpha1

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
