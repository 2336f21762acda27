"""kplan: terraform plan for the Kubernetes scheduler."""
