package config_test

import (
	"errors"
	"fmt"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
)

// A file with three mistakes: all are told at once, each by line and field.
func ExampleDecodeCloudConfiguration() {
	_, err := config.DecodeCloudConfiguration("cloud.yaml", 1, []byte(`apiVersion: ccmadm.dev/v1alpha1
kind: CloudConfiguration
mode: Pod
wait: {timeout: 90}
controlerManager: {}
`))
	fmt.Println(err)

	var problem *finding.Error
	fmt.Println(errors.As(err, &problem), problem.Code == finding.ExitUsage)
	// Output:
	// read CloudConfiguration cloud.yaml:3: mode: Unsupported value: "Pod": supported values: "Auto", "StaticPod", "DaemonSet", "Deployment", "Manual"
	// read CloudConfiguration cloud.yaml:4: wait.timeout: must be a duration like 90s or 5m, not "90"
	// read CloudConfiguration cloud.yaml:5: unknown field "controlerManager", did you mean "controllerManager"?
	// true true
}

// Settings lie over one another: a flag over a file, false over true; what nobody said gets its default.
func ExampleCloudConfiguration_Override() {
	on, off := true, false
	settings := &config.CloudConfiguration{Provider: "hetzner", Routes: &on}
	settings.Override(&config.CloudConfiguration{Routes: &off})
	settings.Default()
	fmt.Println(settings.Provider, settings.Mode, settings.WantsRoutes())
	// Output: hetzner Auto false
}

// Programs look at problems one by one.
func ExampleProblems() {
	_, err := config.DecodeInventory("machines.yaml", []byte(`apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1}
machines:
- id: r1
- id: r1
`))
	var problems config.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Println(p.Line, p.Field)
		}
	}
	// Output: 6 machines[1].id
}
