// The device manager of a genuine kubelet, driven by lines of JSON: one request a line on stdin,
// one answer a line on stdout. Its log goes to stderr.
//
// It serves the real path of the device plugin API, below /var/lib/kubelet, and must therefore run
// in a mount namespace of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

// Request is what a line on stdin asks for; which fields count depends on Do.
type Request struct {
	Do         string      `json:"do"`
	Pod        string      `json:"pod"`
	Containers []Container `json:"containers"`
}

// Container is one of a pod, with how many of which resources it wants.
type Container struct {
	Name      string           `json:"name"`
	Init      bool             `json:"init"`
	Resources map[string]int64 `json:"resources"`
}

// Failure is the answer to what could not be done.
type Failure struct {
	Error string `json:"error"`
}

func main() {
	klog.InitFlags(nil)
	nodes := flag.Int("numa-nodes", 2, "how many NUMA nodes the machine has")
	policy := flag.String("topology-policy", "none", "policy of the topology manager")
	podResources := flag.String("pod-resources", "", "path of the pod resources socket; none if empty")
	flag.Parse()
	kubelet := NewKubelet(*nodes, *policy)
	if err := kubelet.Start(); err != nil {
		klog.Fatal(err)
	}
	if *podResources != "" {
		if err := servePodResources(context.Background(), *podResources, kubelet); err != nil {
			klog.Fatal(err)
		}
	}
	if err := serve(os.Stdin, os.Stdout, kubelet); err != nil {
		klog.Fatal(err)
	}
	kubelet.Stop()
}

// serve answers until the requests end.
func serve(requests io.Reader, answers io.Writer, kubelet *Kubelet) error {
	lines := bufio.NewScanner(requests)
	lines.Buffer(nil, 1<<20)
	encoder := json.NewEncoder(answers)
	for lines.Scan() {
		var request Request
		var answer any
		err := json.Unmarshal(lines.Bytes(), &request)
		if err == nil {
			answer, err = act(kubelet, request)
		}
		if err != nil {
			answer = Failure{err.Error()}
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func act(kubelet *Kubelet, request Request) (any, error) {
	done := struct{}{}
	switch request.Do {
	case "capacity":
		return kubelet.Capacity(), nil
	case "devices":
		return kubelet.Devices(), nil
	case "admit":
		return kubelet.Admit(request.Pod, request.Containers)
	case "options":
		return kubelet.Options(request.Pod)
	case "health":
		return kubelet.Health(request.Pod)
	case "remove":
		return done, kubelet.Remove(request.Pod)
	case "stop":
		kubelet.Stop()
		return done, nil
	case "start":
		return done, kubelet.Start()
	case "restart":
		kubelet.Stop()
		return done, kubelet.Start()
	}
	return nil, fmt.Errorf("unknown request %q", request.Do)
}
