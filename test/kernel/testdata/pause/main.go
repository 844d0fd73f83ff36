// Program pause prints nothing and does not end.
package main

import "time"

func main() {
	for {
		time.Sleep(time.Hour)
	}
}
