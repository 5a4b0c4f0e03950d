module github.com/pulsemq/pulsemq

go 1.26

require (
	github.com/pulsemq/pulsemq/proto v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
)

replace github.com/pulsemq/pulsemq/proto => ./proto
