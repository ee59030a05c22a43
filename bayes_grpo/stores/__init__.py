"""The files of trackers (W&B, TensorBoard, MLflow, Trackio) as bytes: records, checksums, what is damaged."""
