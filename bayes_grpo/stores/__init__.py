"""The files of trackers (W&B, SwanLab, TensorBoard, MLflow, Trackio) as bytes: records, checksums, what is damaged."""
