module watchfire.example/backend

go 1.21
