# The sources of the native library, folder by folder in the order of its layers.
set(HVD_CORE_SOURCES
  base/cpu.cc base/descriptors.cc base/dtype.cc base/error.cc base/event_set.cc base/fork_mark.cc base/log.cc base/sha256.cc
  base/shared_library.cc
  base/timer_fd.cc base/wake_fd.cc base/watched_process.cc base/wire.cc
  device/code_files.cc device/cuda_driver.cc device/hip_driver.cc device/kernels.cc
  device/stream_driver.cc
  kernels/adasum.cc kernels/adasum_values.cc kernels/chosen.cc kernels/convert.cc kernels/convert_values.cc kernels/reduce.cc kernels/reduce_float.cc kernels/reduce_half.cc
  kernels/reduce_int.cc kernels/scale.cc kernels/scale_values.cc
  kernels/stream_bytes.cc kernels/stream_copy.cc kernels/table.cc
  transport/abort.cc transport/auth.cc transport/hash_store.cc transport/message_proofs.cc transport/socket.cc transport/socket_address.cc
  transport/tcp_store.cc transport/topology.cc transport/transport.cc
  transport/mixed/mixed_transport.cc
  transport/mpi/host_networks.cc transport/mpi/mpi_job.cc transport/mpi/mpi_library.cc
  transport/mpi/mpi_store.cc transport/mpi/mpi_transport.cc
  transport/nccl/nccl_communicator.cc transport/nccl/nccl_library.cc
  transport/nccl/nccl_end.cc
  transport/nccl/nccl_start.cc
  transport/shm/borrowed_vectors.cc
  transport/shm/core_distances.cc transport/shm/futex.cc transport/shm/shm_lane.cc transport/shm/lending.cc
  transport/shm/memory_file.cc transport/shm/segment.cc transport/shm/shm_transport.cc
  transport/shm/single_copy.cc
  transport/tcp/lane_link.cc transport/tcp/socket_lane.cc transport/tcp/tcp_transport.cc
  ops/across.cc ops/adasum.cc ops/ahead.cc ops/allgather.cc ops/allreduce.cc ops/alltoall.cc
  ops/arithmetic.cc ops/broadcast.cc ops/device_collectives.cc ops/gather_blocks.cc
  ops/hierarchical.cc ops/mapped_allreduce.cc ops/operand_sink.cc ops/reducescatter.cc
  timeline/timeline.cc timeline/trace_text.cc
  runtime/agreement.cc runtime/announcements.cc runtime/autotune_log.cc runtime/autotuner.cc
  runtime/blocking_call.cc runtime/bootstrap.cc runtime/bootstrap_messages.cc runtime/c_api.cc
  runtime/c_api_arguments.cc runtime/c_api_errors.cc runtime/c_api_mpi.cc runtime/c_api_options.cc
  runtime/c_api_requests.cc runtime/checks.cc runtime/connection.cc runtime/control_messages.cc
  runtime/control_plane.cc runtime/control_plane_collecting.cc runtime/control_plane_messages.cc
  runtime/control_setup.cc runtime/control_tree.cc runtime/coordinator.cc runtime/cpu_share.cc
  runtime/executor.cc runtime/fast_lane.cc runtime/fused_alltoalls.cc runtime/fused_copies.cc
  runtime/fusion.cc runtime/gathering.cc runtime/gpu.cc runtime/gpu_meeting.cc
  runtime/heartbeats.cc runtime/host_identity.cc runtime/inbox.cc runtime/mapped_allreduces.cc
  runtime/memory_in_use.cc runtime/near_connections.cc runtime/operation.cc
  runtime/operation_trace.cc runtime/options.cc runtime/output_memory.cc runtime/peer.cc
  runtime/process_sets.cc runtime/rank_list.cc runtime/request.cc runtime/request_collector.cc
  runtime/response.cc runtime/response_cache.cc runtime/response_queue.cc
  runtime/response_runner.cc runtime/responses_below.cc runtime/result_places.cc runtime/rows.cc
  runtime/runtime.cc runtime/runtime_now.cc runtime/runtime_waiting.cc runtime/setup_calls.cc
  runtime/shared_buffers.cc runtime/short_forms.cc runtime/short_reductions.cc
  runtime/short_results.cc runtime/stall_inspector.cc runtime/stall_report.cc runtime/start.cc
  runtime/tensor_table.cc runtime/transport_setup.cc runtime/unnamed_operations.cc)
list(TRANSFORM HVD_CORE_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/src/native/")

# What is compiled for each CPU level: the table of kernels, and all that it leads to.
set(HVD_KERNEL_SOURCES ${HVD_CORE_SOURCES})
list(FILTER HVD_KERNEL_SOURCES INCLUDE REGEX "/kernels/(adasum_values|convert_values|reduce_[a-z]+|scale_values|stream_bytes|table)\\.cc$")

# All that leaves copying and reducing tensors to kernels and system calls, which is compiled small
# before fast, several files at once. Agreement on an operation waits for other threads and ranks, not
# for instructions.
set(HVD_COLD_SOURCES ${HVD_CORE_SOURCES})
list(FILTER HVD_COLD_SOURCES INCLUDE REGEX "/native/(base/(cpu|descriptors|error|event_set|log|sha256|\
shared_library|watched_process|wire)|device/|ops/|timeline/|transport/(mixed|mpi|nccl|tcp|shm/(borrowed_vectors|lending|memory_file|segment))|\
transport/(abort|auth|hash_store|socket|tcp_store|topology)|runtime/)")
list(FILTER HVD_COLD_SOURCES EXCLUDE REGEX "/runtime/(executor|fast_lane|output_memory)")
set(HVD_HOT_SOURCES ${HVD_CORE_SOURCES})
list(REMOVE_ITEM HVD_HOT_SOURCES ${HVD_COLD_SOURCES})
set_source_files_properties(${HVD_HOT_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

set(HVD_BINDINGS_SOURCES
  base/cpu.cc base/dtype.cc base/error.cc base/fork_mark.cc
  bindings/await.cc bindings/blocking_calls.cc bindings/buffer.cc bindings/call_arguments.cc
  bindings/call_group.cc bindings/call_name.cc bindings/call_tensor.cc bindings/calls.cc
  bindings/core_library.cc bindings/dtypes.cc bindings/errors.cc bindings/module.cc bindings/mpi_membership.cc
  bindings/named_options.cc
  bindings/rank_runtime.cc bindings/results.cc bindings/run_call.cc bindings/started_calls.cc
  bindings/tensor_view.cc)
list(TRANSFORM HVD_BINDINGS_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/src/native/")

set(HVD_NATIVE_TESTS abort across adasum announcements auth autotune borrowed_vectors broadcast collecting collectives compression connection control_plane control_tree convert coordinator core_distances cpu_share crowded_core deaths denormals descriptors device device_kernels end_within
  fast_lane fast_lane_results few_messages gathering gpu gpu_join gpu_loss
  fused half heartbeats hosts inbox kernels lane lane_model lane_opening leader levels log long_places loss memory_in_use mpi pair_allreduce polling rank_order request_collector response_runner runtime scale sha256 shared_buffers single_copy
  sliced_allreduce soak socket socket_lane socket_lane_model stall started started_callers timeline topology trace_text transport unnamed waiting wire)
