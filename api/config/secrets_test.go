package config

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// What is refused is not shown, and an address is refused though it stands where a path may.
func TestDecodeCloudConfiguration_Secrets(t *testing.T) {
	const secret = "hunter2hunter2"
	for name, field := range map[string]string{
		"controllerManager.extraArgs[1]": "controllerManager: {extraArgs: ['--token', '" + secret + "']}",
		"controllerManager.extraArgs[0]": "controllerManager: {extraArgs: ['--endpoint=https://u:" + secret + "@x.example']}",
		"controllerManager.extraEnv[0]":  "controllerManager: {extraEnv: ['API_TOKEN=" + secret + "']}",
		"inventory: Forbidden":           "inventory: https://u:" + secret + "@x.example/inventory.yaml",
		"inventory:":                     "inventory: https://x.example/i?sig=" + secret,
	} {
		_, err := DecodeCloudConfiguration("/root/c.yaml", 1, []byte("apiVersion: "+v1alpha1.APIVersion+"\nkind: "+ConfigKind+"\n"+field+"\n"))
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
