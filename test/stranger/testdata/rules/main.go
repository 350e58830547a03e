// Command rules prints the first rule of the conformance kit in a program that knows nothing else of ccmadm.
package main

import (
	"fmt"

	"github.com/ccmadm/ccmadm/provider/conformance"
)

func main() { fmt.Println(conformance.Rules()[0].Name) }
