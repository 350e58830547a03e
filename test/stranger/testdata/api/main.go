// Command stranger checks a CloudConfiguration in a program that knows nothing else of ccmadm.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
)

func main() {
	text := []byte("apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\nmoed: Manual\n")
	_, err := config.DecodeCloudConfiguration("cloud.yaml", 1, text)
	var problem *finding.Error
	if errors.As(err, &problem) {
		fmt.Println(err)
		os.Exit(int(problem.Code))
	}
}
