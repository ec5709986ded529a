"""Names of PyTorch that stay out, by the module that would have them, and what to use: a ``*`` ends a family of names."""

from __future__ import annotations

_QUANTIZED = "left out: there are no quantized dtypes; use tensor.int8 or tensor.uint8"
_SCRIPTED = "left out: nothing is scripted or traced; programs run as Python"
_STORAGES = "left out: storages have no dtype; use x.untyped_storage() or a tensor"
_BLOCKS = "left out: sparse tensors of blocks are not implemented; use tensor.sparse_csr_tensor"
_COPIES = "left out: PyTorch's own transformations use it; call the method without _copy, and clone()"
_MATRICES = "left out; use tensor.sparse.mm and tensor.sparse.addmm"
_BITS = "left out: there are no dtypes below a byte; use tensor.uint8"
_DISPATCH = "left out; use tensor.overrides.has_torch_function"
_AUTOCAST_DEVICE = (
    "left out: such devices are not supported; use tensor.get_autocast_dtype('cuda') and its neighbours"
)
_NO_GRAPHS = "planned with graphs of launches; until then operations are launched one by one"
_COMPILED = "left out: what guards and programs of tensor.compile are kept is not for programs to set"
_PIPES = "left out, as PyTorch deprecates data pipes; use an IterableDataset"
_RENAMED = "left out, as PyTorch deprecates it; use {}"
_TOOLS_OF_C10D = "left out: process groups have no such records"


def _each(names: str, words: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), words)


LEFT_OUT: dict[str, dict[str, str]] = {
    "tensor": {
        **_each(
            "q_* qscheme int_repr dequantize empty_quantized quantize_* quantized_* fake_quantize_* quint2x4 quint4x2 "
            "choose_qparams_optimized fused_moving_avg_obs_fake_quant",
            _QUANTIZED,
        ),
        **_each("BoolStorage ByteStorage CharStorage DoubleStorage IntStorage LongStorage", _STORAGES),
        **_each("ShortStorage TypedStorage storage", _STORAGES),
        **_each("sparse_bsr* sparse_bsc*", _BLOCKS),
        **_each(
            "ccol_indices_copy col_indices_copy crow_indices_copy indices_copy row_indices_copy values_copy",
            _COPIES,
        ),
        **_each("saddmm sspaddmm", _MATRICES),
        "resize_as_sparse_": "left out; make a new sparse tensor",
        **_each(
            "bit bits* int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7", _BITS
        ),
        **_each(
            "float4_e2m1fn_x2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu",
            "left out; use tensor.float16 or tensor.bfloat16",
        ),
        **_each(
            "get_autocast_ipu_* get_autocast_xla_* is_autocast_ipu_* is_autocast_xla_* set_autocast_ipu_* "
            "set_autocast_xla_*",
            _AUTOCAST_DEVICE,
        ),
        **_each(
            "cudnn_* miopen_* mkldnn_* fbgemm_* batch_norm_* native_* is_vulkan_available",
            "left out: PyTorch's entry to one library of its own; use the functions of nn.functional",
        ),
        **_each("convolution conv_tbc", "left out; use nn.functional.conv1d, conv2d or conv3d"),
        **_each(
            "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy slice_copy "
            "split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy "
            "unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy",
            "left out: PyTorch's own transformations use it; call the function without _copy, and clone()",
        ),
        **_each(
            "sym_constrain_range sym_constrain_range_for_size sym_fresh_size",
            "left out: there are no symbolic sizes",
        ),
        **_each("JITException", _SCRIPTED),
        **_each("FatalError", "left out; catch RuntimeError"),
        "affine_grid_generator": "left out; use nn.functional.affine_grid",
        "cond": "left out: nothing is traced; use Python's if",
        "constant_pad_nd": "left out; use nn.functional.pad",
        "embedding_renorm_": "left out; use max_norm of nn.functional.embedding",
        "frobenius_norm": "left out; use tensor.linalg.norm",
        "grid_sampler": "left out; use nn.functional.grid_sample",
        "grid_sampler_2d": "left out; use nn.functional.grid_sample",
        "grid_sampler_3d": "left out; use nn.functional.grid_sample",
        "hash_tensor": "left out; use hashlib on x.numpy().tobytes()",
        **_each("has_*", "left out, as PyTorch deprecates it; use tensor.backends"),
        "is_distributed": "left out; use parallel.is_initialized",
        **_each("is_warn_always_enabled set_warn_always", "left out; use warnings.simplefilter('always')"),
        "masked": "left out: there are no masked tensors; use masked_fill, and tensor.where",
        "monitor": "left out; use a logger, or utils.tensorboard.SummaryWriter",
        "norm_except_dim": "left out; use tensor.linalg.vector_norm with the other dimensions",
        "nuclear_norm": "left out; use tensor.linalg.matrix_norm(x, 'nuc')",
        "quasirandom": "left out; use scipy.stats.qmc.Sobol and tensor.from_numpy",
        "slice_inverse": "left out; use tensor.slice_scatter",
        "thread_safe_generator": "left out; use a Generator in each thread",
    },
    "tensor.Tensor": {
        **_each(
            "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme int_repr "
            "dequantize",
            _QUANTIZED,
        ),
        **_each(
            "sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_", "left out; make a new sparse tensor"
        ),
        **_each("to_sparse_bsc to_sparse_bsr", _BLOCKS),
        "sspaddmm": _MATRICES,
        **_each("chalf", "left out; use x.to(tensor.complex64)"),
        **_each("ipu mtia xpu", "left out: such devices are not supported; use x.to('cuda') or x.cpu()"),
        **_each("resize resize_as", "left out, as PyTorch deprecates it; use x.reshape or x.resize_"),
        **_each(
            "eig lstsq solve symeig", "left out, as PyTorch removed it; use the function of tensor.linalg"
        ),
        "const_data_ptr": "left out: every access counts as one; use x.data_ptr()",
        "grad_dtype": "left out: a gradient has the dtype of its tensor",
        "hash_tensor": "left out; use hashlib on x.numpy().tobytes()",
        "index": "left out; index with x[...]",
        "map2_": "left out; use x.copy_() of an expression",
        "name": "left out: tensors have no names; those of a module's parameters are in named_parameters",
        "module_load": "left out: load_state_dict() copies into the parameters there are",
        "reinforce": "left out, as PyTorch removed it; use distributions and log_prob",
        "slice_inverse": "left out; use x.slice_scatter",
        "storage": "planned; until then use x.untyped_storage()",
        "storage_type": _STORAGES,
        "volatile": "left out, as PyTorch removed it; use tensor.no_grad",
        **_each(
            "is_shared share_memory_", "planned; until then pass arrays of multiprocessing.shared_memory"
        ),
        "to_mkldnn": "left out: the library is not used",
        "to_padded_tensor": "left out: there are no nested tensors",
    },
    "tensor.accelerator": {"Graph": _NO_GRAPHS},
    "tensor.amp.autocast_mode": {"autocast_decorator": "left out; decorate with tensor.autocast(...)"},
    "tensor.amp.grad_scaler": {
        "OptState": "left out: states are kept in the scaler; use get_scale and state_dict"
    },
    "tensor.autograd": {
        "NestedIOFunction": "left out, as PyTorch deprecates it; use autograd.Function",
        "enforce_grad_layout_policy": "left out: gradients have the layout that their operation gives",
    },
    "tensor.autograd.function": _each(
        "BackwardCFunction FunctionMeta InplaceFunction NestedIOFunction",
        "left out; derive from autograd.Function",
    ),
    "tensor.autograd.grad_mode": {
        "enforce_grad_layout_policy": "left out: gradients have the layout that their operation gives",
    },
    "tensor.autograd.gradcheck": _each(
        "get_*", "left out; use autograd.gradcheck, or autograd.functional.jacobian"
    ),
    "tensor.autograd.graph": {
        "allow_mutation_on_saved_tensors": "left out; clone() what is changed in place afterwards",
        "region_activation_memory_budget": "left out; use utils.checkpoint",
        **_each("set_*", "left out: accumulation waits for the stream of the gradient, whichever it is"),
    },
    "tensor.autograd.variable": {"VariableMeta": "left out; use autograd.Variable"},
    "tensor.backends": _each("kleidiai mha miopen nnpack python_native", "left out: the library is not used"),
    "tensor.backends.cuda": {
        **_each(
            "SDPAParams can_use_cudnn_attention can_use_efficient_attention can_use_flash_attention",
            "left out: attention has one computation here, for all arguments",
        ),
        **_each(
            "is_ck_sdpa_available preferred_rocm_fa_library", "left out: AMD's devices are not supported"
        ),
        **_each(
            "blas_workspace_size cublas_workspace_size cublaslt_workspace_size", "left out: cuBLAS decides"
        ),
        **_each(
            "cuBLASModule cuFFTPlanCache*",
            "left out; use backends.cuda.matmul and backends.cuda.cufft_plan_cache",
        ),
    },
    "tensor.backends.cudnn": {"depthwise_kernel": "left out: convolutions have kernels of their own"},
    "tensor.backends.mps": _each("get_* is_macos13_or_newer", "left out: Apple's devices are not supported"),
    "tensor.cpu": {"get_capabilities": "left out; read /proc/cpuinfo"},
    "tensor.compiler": _each(
        "config get_default_backend set_default_backend keep_* load_* save_* set_enable_* skip_* "
        "substitute_in_graph wrap_numpy",
        _COMPILED,
    ),
    "tensor.cuda": {
        **_each(
            "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage "
            "DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage",
            _STORAGES,
        ),
        **_each(
            "CUDAPluggableAllocator change_current_allocator caching_allocator_disabled "
            "caching_allocator_enable",
            "left out; GRAPHROOT_CUDA_ALLOC_CONF and GRAPHROOT_NO_CUDA_MEMORY_CACHING set the allocator",
        ),
        **_each(
            "DeferredCudaCallError check_error cudaStatus cudart",
            "left out: every call is checked; catch drv.CudaError",
        ),
        **_each(
            "current_blas_handle current_solver_handle",
            "left out: handles belong to the runtime; use cuda.RawKernel on x.data_ptr()",
        ),
        **_each(
            "reset_accumulated_host_memory_stats reset_peak_host_memory_stats",
            "left out; compare cuda.host_memory_stats before and after",
        ),
        "default_generators": "left out; use cuda.manual_seed and cuda.get_rng_state",
        "list_gpu_processes": "left out; use the command nvidia-smi",
        "GreenContext": "left out: streams use all multiprocessors",
        "get_gencode_flags": "left out: kernels are compiled for the device when they are used",
        "jiterator": "left out; write kernels with cuda.RawKernel",
        "profiler": "left out; use tensor.profiler",
        "reset_max_memory_cached": _RENAMED.format("cuda.reset_peak_memory_stats"),
    },
    "tensor.cuda.amp": {"amp_definitely_not_available": "left out; use cuda.is_available"},
    "tensor.cuda.memory": {
        **_each(
            "reset_accumulated_host_memory_stats reset_peak_host_memory_stats",
            "left out; compare cuda.host_memory_stats before and after",
        ),
        "list_gpu_processes": "left out; use the command nvidia-smi",
        **_each(
            "CUDAPluggableAllocator change_current_allocator caching_allocator_disabled "
            "caching_allocator_enable",
            "left out; GRAPHROOT_CUDA_ALLOC_CONF and GRAPHROOT_NO_CUDA_MEMORY_CACHING set the allocator",
        ),
        "memory_cached": _RENAMED.format("cuda.memory_reserved"),
        "max_memory_cached": _RENAMED.format("cuda.max_memory_reserved"),
        "reset_max_memory_cached": _RENAMED.format("cuda.reset_peak_memory_stats"),
    },
    "tensor.jit": _each(
        "Attribute CompilationUnit Error Future fork wait enable_onednn_fusion export_opnames "
        "onednn_fusion_enabled set_fusion_strategy strict_fusion",
        _SCRIPTED,
    ),
    "tensor.profiler.autograd_profiler": {
        **_each("emit_nvtx emit_itt", "left out; mark spans with cuda.nvtx.range"),
        **_each(
            "load_nvprof parse_nvprof_trace EnforceUnique",
            "left out: nvprof is no more; use profile(use_cuda=True)",
        ),
        "KinetoStepTracker": "left out; use step() of tensor.profiler.profile",
        "MemRecordsAcc": "left out; use profile_memory=True",
    },
    "tensor.profiler.events": {
        **_each(
            "FormattedTimesMixin Kernel StringTable EventMetadata", "left out: FunctionEvent has what it had"
        ),
        "MemRecordsAcc": "left out; use profile_memory=True",
    },
    "tensor.onnx.utils": _each("*", "left out: models cannot be exported to ONNX here"),
    "tensor.onnx.symbolic_opset": _each("*", "left out: models cannot be exported to ONNX here"),
    "tensor.onnx.symbolic_helper": _each("*", "left out: models cannot be exported to ONNX here"),
    "tensor.onnx": _each(
        "ExportableModule InputObserver ONNXProgram OnnxExporterError errors ops",
        "left out: models cannot be exported to ONNX here; save a state dict with tensor.save",
    ),
    "tensor.random": {"thread_safe_generator": "left out; use a Generator in each thread"},
    "tensor.return_types": {
        "all_return_types": "left out; dir(tensor.return_types) has their names",
        "pytree_register_structseq": "left out: they are named tuples, which utils._pytree takes apart",
        **_each(
            "aminmax_out cummax_out cummin_out frexp_out geqrf_out histogram_out kthvalue_out linalg_* lu_unpack_out "
            "max_out median_out min_out mode_out nanmedian_out qr_out slogdet_out sort_out svd_out topk_out "
            "triangular_solve_out",
            "left out: results of calls with out= have the type of those without",
        ),
    },
    "tensor.serialization": {
        **_each(
            "LoadEndianness get_default_load_endianness set_default_load_endianness",
            "left out: the byte order that a file states is read",
        ),
        **_each("get_crc32_options set_crc32_options", "left out: checksums are always written"),
        **_each(
            "get_default_mmap_options set_default_mmap_options", "left out: pages are mapped copy-on-write"
        ),
        **_each(
            "register_package default_restore_location location_tag validate_cuda_device validate_hpu_device",
            "left out; use map_location of tensor.load",
        ),
        **_each("StorageType normalize_storage_type storage_to_tensor_type", _STORAGES),
        **_each("SourceChangeWarning", "left out: modules are not stored, but their state dicts"),
        "check_module_version_greater_or_equal": "left out; compare the module's __version__",
        "mkdtemp": "left out; use tempfile.TemporaryDirectory",
        "get_unsafe_globals_in_checkpoint": "left out; tensor.load names what it refuses",
        "skip_data": "left out; save the state dict alone",
    },
    "tensor.sparse": {
        **_each(
            "SparseSemiStructuredTensor* to_sparse_semi_structured",
            "left out: no kernels use the hardware's 2:4 sparsity; use a dense tensor",
        ),
        "as_sparse_gradcheck": "left out; pass a function of the values to autograd.gradcheck",
        "solve": "left out; use linalg.solve with to_dense(), or scipy.sparse.linalg.spsolve",
    },
    "tensor.special": {"airy_ai": "left out; use scipy.special.airy and tensor.from_numpy"},
    "tensor.utils": {
        **_each(
            "generate_methods_for_privateuse1_backend rename_privateuse1_backend backend_registration",
            "left out: devices are 'cpu' and 'cuda'",
        ),
        **_each("get_cpp_backtrace cpp_backtrace", "left out: there is no C++; use traceback"),
        **_each("ThroughputBenchmark throughput_benchmark", "left out; use utils.benchmark.Timer"),
        "backcompat": "left out: there are no warnings of old defaults to turn on",
        "collect_env": "left out; use the command graphroot info",
        "flop_counter": "left out: there is no dispatcher to count operations in",
        "set_module": "left out; assign __module__",
        "swap_tensors": "left out; use x.data = y, or x.copy_(y)",
        "weak": "left out; use weakref.WeakKeyDictionary",
    },
    "tensor.utils.benchmark": {
        "utils": "left out: tensor.utils.benchmark itself has the names",
        **_each(
            "CallgrindStats CopyIfCallgrind FunctionCount FunctionCounts",
            "left out: there is no C++ to count the instructions of; use Python's cProfile",
        ),
        **_each(
            "FuzzedParameter FuzzedSparseTensor FuzzedTensor Fuzzer ParameterAlias",
            "left out; draw shapes with random, and tensors with testing.make_tensor",
        ),
    },
    "tensor.utils.tensorboard": _each(
        "FileWriter RecordWriter", "left out; use utils.tensorboard.SummaryWriter"
    ),
    "tensor.utils.checkpoint": {
        "set_checkpoint_debug_enabled": "left out; pass debug=True to checkpoint",
        "check_backward_validity": "left out: checkpoint checks it",
        "detach_variable": "left out; use x.detach().requires_grad_()",
        **_each(
            "DefaultDeviceType get_device_states set_device_states",
            "left out: checkpoint keeps the states of all generators; use cuda.get_rng_state for one",
        ),
        **_each(
            "CheckpointPolicy GraphExecGroup SAC_IGNORED_OPS SelectiveCheckpointContext "
            "create_selective_checkpoint_contexts",
            "left out: there is no dispatcher to select operations in; checkpoint smaller functions",
        ),
    },
    "tensor.utils.data": _each(
        "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation functional_datapipe "
        "guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled "
        "datapipes graph graph_settings",
        _PIPES,
    ),
    "tensor.utils.hooks": _each(
        "BackwardHook unserializable_hook warn_if_has_hooks",
        "left out: hooks of modules and tensors are registered by their methods",
    ),
    "nn": {
        "Container": "left out, as PyTorch deprecates it; use nn.Module",
        "factory_kwargs": "left out; pass device= and dtype= on",
        **_each(
            "LinearCrossEntropyLoss LinearCrossEntropyOptions",
            "left out; use nn.Linear and nn.CrossEntropyLoss",
        ),
    },
    "nn.Module": {
        **_each(
            "ipu mtia xpu", "left out: such devices are not supported; use module.to('cuda') or module.cpu()"
        ),
        "share_memory": "planned; until then each process makes its own module and loads the state dict",
    },
    "nn.modules": {
        "Container": "left out, as PyTorch deprecates it; use nn.Module",
        **_each(
            "LinearCrossEntropyLoss LinearCrossEntropyOptions",
            "left out; use nn.Linear and nn.CrossEntropyLoss",
        ),
    },
    "nn.ao": {
        "nn": "left out: there are no quantized dtypes",
        "ns": "left out: there are no quantized dtypes",
        "pruning": "left out; use nn.utils.prune",
    },
    "nn.ao.quantization": _each("*", "left out: there are no quantized dtypes"),
    "nn.attention": {
        **_each(
            "WARN_FOR_UNFUSED_KERNELS activate_* current_* list_* register_* restore_*",
            "left out: attention has one computation here",
        ),
    },
    "nn.functional": {
        **_each(
            "ScalingType SwizzleType scaled_mm scaled_grouped_mm",
            "left out: there are no products of 8 bits; use tensor.matmul",
        ),
        **_each("conv_tbc native_channel_shuffle", "left out; use conv1d, and channel_shuffle"),
        **_each("has_torch_function*", _DISPATCH),
        "assert_int_or_pair": "left out; check the argument yourself",
        "grouped_mm": "left out; use tensor.bmm, or a product for each group",
        "linear_cross_entropy": "left out; use nn.functional.linear and nn.functional.cross_entropy",
    },
    "nn.optim": {
        "swap_in_optimizer_params_and_state": "left out; use load_state_dict",
    },
    "parallel.multiprocessing.pool": {
        "clean_worker": "left out: workers of a pool are Python's own, which tidy up themselves",
    },
    "parallel.multiprocessing.reductions": {
        "StorageWeakRef": "left out; use weakref.ref(x.untyped_storage())",
        **_each(
            "rebuild_* reduce_* fd_id shared_cache SharedCache storage_from_cache",
            "left out: tensor.utils.shared_tensors does it",
        ),
    },
    "parallel.fsdp": {
        **_each(
            "LocalOptimStateDictConfig LocalStateDictConfig OptimStateKeyType",
            "left out; use FULL_STATE_DICT or SHARDED_STATE_DICT, whose states have the names of parameters",
        ),
        "DataParallelMeshDims": "left out; pass a mesh of the dimensions of data parallelism",
        "register_fsdp_forward_method": "planned; until then call such a method in forward()",
        "share_comm_ctx": "planned; until then apply parallel.fully_shard to a module that has both",
    },
    "parallel.checkpoint": {
        **_each(
            "HuggingFaceStorageReader HuggingFaceStorageWriter QuantizedHuggingFaceStorageReader hf_storage "
            "quantized_hf_storage",
            "left out; the files are safetensors files, and tensor.load reads others",
        ),
        **_each(
            "LoadPlan LoadPlanner SavePlan SavePlanner ReadItem WriteItem planner planner_helpers StorageReader StorageWriter "
            "storage api logger logging_handlers resharding staging state_dict_loader state_dict_saver utils",
            "left out: it is of PyTorch's own planning; use save, load, async_save, FileSystemWriter and FileSystemReader",
        ),
        **_each("load_state_dict save_state_dict", "left out, as PyTorch deprecates it; use load and save"),
        **_each(
            "load_sharded_optimizer_state_dict optimizer",
            "left out; use get_optimizer_state_dict, load and set_optimizer_state_dict",
        ),
    },
    "parallel.tensor": {
        **_each(
            "distribute_module empty full ones rand randn zeros",
            "planned; until then use parallel.tensor.distribute_tensor",
        ),
    },
    "parallel.tensor.parallel": {
        "loss_parallel": "planned; until then have the last layer return whole outputs, with output_layouts=Replicate()",
    },
    "parallel.pipelining": {
        **_each(
            "Pipe SplitPoint pipe_split pipeline build_stage",
            "planned; until then give each rank its layers, and make a parallel.pipelining.PipelineStage of them",
        ),
        **_each(
            "ScheduleDualPipeV ScheduleInterleaved1F1B ScheduleInterleavedZeroBubble ScheduleLoopedBFS ScheduleZBVZeroBubble",
            "planned; until then use parallel.pipelining.Schedule1F1B",
        ),
    },
    "parallel.optim": {
        **_each(
            "DistributedOptimizer as_functional_optim",
            "left out: it is for torch.distributed.rpc; use nn.optim",
        ),
        "PostLocalSGDOptimizer": "planned; until then average parameters with parallel.all_reduce",
    },
    "parallel": {
        **_each(
            "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BarrierOptions BroadcastOptions GatherOptions "
            "ReduceOptions ReduceScatterOptions ScatterOptions BackendConfig GroupName ProcessGroupGloo "
            "BuiltinCommHookType Logger Reducer autograd c10d_logger config constants distributed_c10d "
            "logging_handlers remote_device utils",
            "left out: it is of PyTorch's own process groups; use the collectives, and DistributedDataParallel",
        ),
        **_each(
            "all_gather_coalesced all_reduce_coalesced", "left out, as PyTorch deprecates it; call one by one"
        ),
        **_each(
            "register_rendezvous_handler rendezvous", "left out; use init_process_group(init_method=...)"
        ),
        **_each("shrink_group split_group", "left out; use parallel.new_group"),
        **_each("record_comm", _TOOLS_OF_C10D),
        "breakpoint": "left out; call Python's breakpoint() on one rank",
        **_each("elastic", "planned; until then start ranks with graphroot launch"),
        **_each("rpc", "left out; use parallel.send and recv, or Python's multiprocessing.managers"),
        "nn": "left out; write an autograd.Function around the collectives",
        **_each(
            "get_debug_level set_debug_level set_debug_level_from_env DebugLevel",
            "left out; use graphroot memcheck to find mistakes",
        ),
    },
}
