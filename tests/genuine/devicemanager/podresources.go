package main

import (
	"context"
	"net"
	"os"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

// devicesProvider tells the pod resources server of devices. The kubelet's own is not exported
// (pkg/kubelet/cm/container_manager_linux.go).
type devicesProvider struct{ kubelet *Kubelet }

func (p devicesProvider) UpdateAllocatedDevices() { p.kubelet.current().UpdateAllocatedDevices() }

func (p devicesProvider) GetDevices(uid, name string) []*podresourcesapi.ContainerDevices {
	return told(p.kubelet.current().GetDevices(uid, name))
}

func (p devicesProvider) GetAllocatableDevices() []*podresourcesapi.ContainerDevices {
	return told(p.kubelet.current().GetAllocatableDevices())
}

func told(instances devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	var devices []*podresourcesapi.ContainerDevices
	for name, of := range instances {
		for id, device := range of {
			devices = append(devices, &podresourcesapi.ContainerDevices{
				ResourceName: name, DeviceIds: []string{id}, Topology: topology(device),
			})
		}
	}
	return devices
}

func topology(device *pluginapi.Device) *podresourcesapi.TopologyInfo {
	if device.GetTopology() == nil {
		return nil
	}
	info := &podresourcesapi.TopologyInfo{}
	for _, node := range device.GetTopology().GetNodes() {
		info.Nodes = append(info.Nodes, &podresourcesapi.NUMANode{ID: node.GetID()})
	}
	return info
}

// nothing stands for what has nothing to do with devices: CPUs, memory, claims.
type nothing struct{}

func (nothing) GetCPUs(string, string) []int64                              { return nil }
func (nothing) GetAllocatableCPUs() []int64                                 { return nil }
func (nothing) GetAllocatableMemory() []*podresourcesapi.ContainerMemory    { return nil }
func (nothing) GetMemory(string, string) []*podresourcesapi.ContainerMemory { return nil }
func (nothing) GetDynamicResources(*v1.Pod, *v1.Container) []*podresourcesapi.DynamicResource {
	return nil
}

func servePodResources(ctx context.Context, path string, kubelet *Kubelet) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	providers := podresources.PodResourcesProviders{
		Pods: kubelet, Devices: devicesProvider{kubelet},
		Cpus: nothing{}, Memory: nothing{}, DynamicResources: nothing{},
	}
	podresourcesapi.RegisterPodResourcesListerServer(
		server, podresources.NewV1PodResourcesServer(ctx, providers),
	)
	go func() {
		if err := server.Serve(listener); err != nil {
			klog.Fatal(err)
		}
	}()
	return nil
}
