package main

import (
	"context"
	"fmt"
	"sort"
	"sync"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// Kubelet is the part of one that has to do with devices, and the pods that it knows of.
//
// Pods outlast a restart, as the kubelet learns of them from the API server again.
type Kubelet struct {
	nodes  []cadvisorapi.Node
	policy string

	mutex    sync.Mutex
	pods     map[string]*v1.Pod
	manager  *devicemanager.ManagerImpl
	topology topologymanager.Manager
}

// ready tells the manager that all pods are known.
type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

// NewKubelet is one of a machine with NUMA nodes of equal distance; it has to be started.
func NewKubelet(nodes int, policy string) *Kubelet {
	kubelet := &Kubelet{policy: policy, pods: map[string]*v1.Pod{}}
	for id := range nodes {
		kubelet.nodes = append(kubelet.nodes, cadvisorapi.Node{Id: id})
	}
	return kubelet
}

// Start makes a manager, which reads the checkpoint and serves registrations.
func (k *Kubelet) Start() error {
	topology, err := topologymanager.NewManager(k.nodes, k.policy, "container", nil)
	if err != nil {
		return err
	}
	manager, err := devicemanager.NewManagerImpl(k.nodes, topology)
	if err != nil {
		return err
	}
	topology.AddHintProvider(klog.Background(), manager)
	k.mutex.Lock()
	k.manager, k.topology = manager, topology
	k.mutex.Unlock()
	return manager.Start(
		klog.Background(), k.GetPods, ready{}, containermap.NewContainerMap(), sets.New[string](),
	)
}

// Stop ends the manager as the end of a kubelet does.
func (k *Kubelet) Stop() {
	if err := k.current().Stop(klog.Background()); err != nil {
		klog.Error(err)
	}
}

func (k *Kubelet) current() *devicemanager.ManagerImpl {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.manager
}

// Capacity is what the kubelet would write into the status of its node.
type Capacity struct {
	Capacity    map[string]int64 `json:"capacity"`
	Allocatable map[string]int64 `json:"allocatable"`
	Removed     []string         `json:"removed"`
}

// Capacity asks as often as the kubelet updates the status of its node.
func (k *Kubelet) Capacity() Capacity {
	capacity, allocatable, removed := k.current().GetCapacity()
	return Capacity{counts(capacity), counts(allocatable), removed}
}

func counts(list v1.ResourceList) map[string]int64 {
	counts := map[string]int64{}
	for name, quantity := range list {
		counts[string(name)] = quantity.Value()
	}
	return counts
}

// Devices are the ids of the healthy devices of each resource.
func (k *Kubelet) Devices() map[string][]string {
	return ids(k.current().GetAllocatableDevices())
}

func ids(instances devicemanager.ResourceDeviceInstances) map[string][]string {
	found := map[string][]string{}
	for name, devices := range instances {
		found[name] = []string{}
		for id := range devices {
			found[name] = append(found[name], id)
		}
		sort.Strings(found[name])
	}
	return found
}

// Given is what a container is started with.
type Given struct {
	Devices map[string][]string                      `json:"devices"`
	Options *devicemanager.DeviceRunContainerOptions `json:"options"`
}

// Admit gives devices to all containers of a new pod, or refuses it.
func (k *Kubelet) Admit(name string, containers []Container) (map[string]Given, error) {
	pod, err := newPod(name, containers)
	if err != nil {
		return nil, err
	}
	k.mutex.Lock()
	_, known := k.pods[name]
	if !known {
		k.pods[name] = pod
	}
	topology := k.topology
	k.mutex.Unlock()
	if known {
		return nil, fmt.Errorf("there is a pod %q already", name)
	}
	result := topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
	if !result.Admit {
		_ = k.Remove(name)
		return nil, fmt.Errorf("%s: %s", result.Reason, result.Message)
	}
	return k.Options(name)
}

func newPod(name string, containers []Container) (*v1.Pod, error) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID(name),
	}}
	for _, asked := range containers {
		limits := v1.ResourceList{}
		for resourceName, count := range asked.Resources {
			limits[v1.ResourceName(resourceName)] = *resource.NewQuantity(count, resource.DecimalSI)
		}
		container := v1.Container{
			Name: asked.Name, Resources: v1.ResourceRequirements{Limits: limits, Requests: limits},
		}
		if asked.Init {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
	}
	if len(pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("the pod %q has no containers", name)
	}
	return pod, nil
}

// Options are what the containers of a pod are started with, at first and after each crash.
func (k *Kubelet) Options(name string) (map[string]Given, error) {
	pod, found := k.GetPodByName("default", name)
	if !found {
		return nil, fmt.Errorf("there is no pod %q", name)
	}
	manager := k.current()
	given := map[string]Given{}
	for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		options, err := manager.GetDeviceRunContainerOptions(context.Background(), pod, &container)
		if err != nil {
			return nil, err
		}
		devices := ids(manager.GetDevices(string(pod.UID), container.Name))
		given[container.Name] = Given{devices, options}
	}
	return given, nil
}

// Health is that of each device of a pod, as the status of the pod tells it.
func (k *Kubelet) Health(name string) (map[string]string, error) {
	pod, found := k.GetPodByName("default", name)
	if !found {
		return nil, fmt.Errorf("there is no pod %q", name)
	}
	status := &v1.PodStatus{}
	for _, container := range pod.Spec.Containers {
		one := v1.ContainerStatus{Name: container.Name}
		status.ContainerStatuses = append(status.ContainerStatuses, one)
	}
	k.current().UpdateAllocatedResourcesStatus(pod, status)
	health := map[string]string{}
	for _, container := range status.ContainerStatuses {
		for _, resources := range container.AllocatedResourcesStatus {
			for _, device := range resources.Resources {
				health[string(device.ResourceID)] = string(device.Health)
			}
		}
	}
	return health, nil
}

// Remove forgets a pod that has ended; the manager takes its devices back when it needs some.
func (k *Kubelet) Remove(name string) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if _, found := k.pods[name]; !found {
		return fmt.Errorf("there is no pod %q", name)
	}
	delete(k.pods, name)
	return nil
}

// GetPods are all that the kubelet knows of.
func (k *Kubelet) GetPods() []*v1.Pod {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	pods := []*v1.Pod{}
	for _, pod := range k.pods {
		pods = append(pods, pod)
	}
	return pods
}

// GetActivePods are those that have not ended: here all.
func (k *Kubelet) GetActivePods() []*v1.Pod { return k.GetPods() }

// GetPodByName is a pod, and whether there is one.
func (k *Kubelet) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	pod, found := k.pods[name]
	return pod, found && namespace == "default"
}
