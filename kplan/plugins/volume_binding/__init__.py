"""VolumeBinding: a pod goes where its bound volumes can be reached and the others can be found or made."""
