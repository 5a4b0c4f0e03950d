module github.com/pulsemq/pulsemq

go 1.26

require github.com/pulsemq/pulsemq/proto v0.0.0

replace github.com/pulsemq/pulsemq/proto => ./proto
