module github.com/pulsemq/pulsemq/clients/go

go 1.26

require github.com/pulsemq/pulsemq/proto v0.0.0

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
)

replace github.com/pulsemq/pulsemq/proto => ../../proto
