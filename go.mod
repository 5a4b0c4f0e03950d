module github.com/pulsemq/pulsemq

go 1.26.0

require (
	github.com/pulsemq/pulsemq/proto v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
)

require (
	github.com/iceber/iouring-go v0.0.0-20230403020409-002cfd2e2a90 // indirect
	golang.org/x/sys v0.50.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/pulsemq/pulsemq/proto => ./proto
