"""What a kernel does by the words of its name, in any library.

Most kernels are named after what they compute: ``fused_add_rms_norm_kernel``, ``silu_and_mul``, ``topk_softmax``. The
first rule that matches decides. Rules for the part that costs most come first: communication before what is fused with
it, a product before its epilogue, a norm before the addition in front of it. A name without such a word stays unknown.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from kernelbook.kernel_names.model import UNKNOWN

#: ``family: what`` (the matched words, if it is empty), then the patterns of words: ``_`` is the space between two
#: words, ``...`` up to six words.
RULES = r"""
communication: communication
    all_?reduce reduce_?scatter all_?gather all_?(?:2|to)_?all\w* cross_device_reduce send_?recv multi_?mem lamport
    \w*user_?buffers?\w* sym_?mem nvls put_signal barrier mscclpp a_2_a(?!_mapping) send recv push_kernel
    quick_?reduce symmetric_memory nvshmem\w*
other: random numbers
    distribution philox random rand_?perm rng uniform(?!_shape) bernoulli multinomial poisson sampl(?:e|ing|er)\w*
    gumbel gen_sequenced generate_seed extract_seed\w*
other: bookkeeping
    meta_?data scheduler prepare_varlen finalize_(?:moe|matmul|routing|kernel) fused_moe_pre\w+ pre_?compute
    gemm_starts to_offsets problem_sizes tma_descriptors? expert_offsets preprocess_topk
    (?:set|compute|prepare|init|fill|clear)_...(?:ptrs?|pointers?|args|data|arrays|semaphores|offsets|descs?)
    (?:build|compute|finalize|prepare|update)_...(?:lens|lengths|inputs|positions?|strides|idx|tokens?)
    (?:set|displace)_pointers? (?:adjust|setup)_(?:ipiv|pivinfo)
copy/cast: writes a cache
    (?:reshape|concat|append|insert|gather|store|write|save|copy|quant\w*)_...(?:kv|cache|kvcache)
    (?:update|[gs]et|process|flatten|expand)_...(?:kv|cache|kvcache) concat_mla
    kv_cache_(?:copy|scatter|gather|store|update|insert) (?<!sin_)(?<!kv_)cache_kernel
other: state-space model or linear attention
    linear_attn linear_attention lightning_attn (?:gated_)?delta_(?:rule|net) retention recurrent gla kda gdn
    rwkv\d? wkv_?\d? selective_scan mamba\w* ssm ssd (?<!bmm_)chunk_(?:\w+_){0,5}(?:fwd|bwd)
    (?<!bmm_)chunk_(?:scan|state|cumsum|local_cumsum) selective_state chunk_cumsum recompute_w_u solve_tril wy_repr
    scaled_dot_kkt state_passing
softmax: softmax
    (?:attn|attention)_softmax
attention: attention
    fmha flash_attn flash_attention flash_(?:fwd|bwd|decode|decoding) flash_?mla attention attn attend [mg]qa mha
    sdpa sparse_mla mla_sparse nsa neighborhood lse_combine combine_lse
    mla_(?:fwd|dec\w*|prefill|combine|merge|reduce|a_\d+) fwd_(?:grouped_)?kernel_stage
    (?:prefill|decode)_with_(?:paged_|ragged_)?kv paged_(?:decode|prefill) xqa merge_(?:attn_)?states? dot_do_o
    dkdv\w* dq_dk_dv convert_dq variable_length_(?:merge|attention)_states
softmax: softmax
    soft_?max\w* sparse_?max cross_entropy parallel_ce
copy/cast: lays weights out anew
    (?:re|pre)pack\w* marlin_...preprocess structured_sparse_compressor compress_sparse_tensor\w*
    act(?:ivation)?_quant\w* quant\w*_...deep_?gemm ^per_(?:token|tensor)_...quant weight_reorder reorder
    deq?uant_mm swizzle_weight
other: convolution
    conv conv\d?d? conv_\d_?d? convolution convolve fprop [dw]grad winograd\w* im_2_col\w* im_2_d_2_col vol_2_col
    vol_2_im col_2_im\w* implicit_gemm deconv\w* depthwise first_layer
reduction: adds up the parts of a split-K product
    split_?k_?reduc\w+ (?:reduce|combine)_...split_?k
elementwise: activation
    (?:\w+_(?:and_)?mul|silu|gelu)_(?:\w+_){0,3}(?:quant|cvt) gated_act \w+_and_mul
reduction: adds up partial results
    partial_reduce reduce_partials? stage_\d_reduce (?<!all_)(?<!all)reduce_(?:fp_\d+_|bf_\d+_)?(?:kernel_?\w*)?$
GEMM: matrix product
    (?!fbgem|spgem)\w*gem[mv](?!a)\w* (?:sp)?(?:gp|hp|sy|he|syhe|[gst][bp]|hb|tr)mv[tl]? mat_?mul\w* b?mm addmm
    ba?ddbmm mul_mat marlin machete (?:fused|mega|routed|situ|silu)_moe(?!_router|_aux|_gat|_inputs) moe_stage
    f_?moe mfma moe_q_\d (?:fp_?\d+|w_\d_a_\d+)_linear lora_(?:shrink|expand|[ab]_kernel) (?:do_)?shrink_kernel
    do_expand wv_?split_?k [sdcz]symm [sdcz]?(?:hemm|trmm) sy(?:he)?(?:r_?2?k|rk) her_?2?k mmv?q einsum [bs]gmv
    exl_?2 mat_?vec
other: lays tokens out by expert
    moe_(?:align|permute|unpermute|sort\w*|lora_align|finalize|scatter|gather) finalize_moe expand_input_rows
    (?:count|shuffle|sort|expert)_...(?:tokens|rows) row_id_map
reduction: adds up the experts' outputs
    moe_(?:lora_)?sum moe_\w+_sum
other: sort, scan or selection
    \w*top_?k\w* top_?p reject\w* resampl\w* verify_tree beam greedy bad_words (?:moe|fused)_gate grouped_topk
    routing router (?:arg_)?sorts? bitonic_\w+ radix scan prefix_sums? \w*cum_?(?:sum|prod|max|min)\w* histogram
    hist bin_?count unique non_?zero search_?sorted
fill/mask: sets memory
    ^(?:zero|memset)_ zero_kernel
reduction:
    (?:\w*rms|layer|group|batch|instance|l_?2|l_?1|qk|q|k|add|weight|renorm|lp)?_?norms? \w*rmsnorm\w*
    \w*layer_?norm\w* batch_?norm\w* group_?norm\w* rowwise_?norm\w* ln_(?:fwd|bwd) bn_(?:fw|bw) moments gamma_beta
    welford (?:inner|outer)_persistent bn_stats reduce_tensor internal_gradients (?:backward_)?fused_params
elementwise: rotary embedding
    rope rotary mrope
other:
    compute_grad_weight embed\w* gather(?:s|ing)? scatter\w* index(?:es|ing)? indic\w* page_table\w* sinkhorn take
    put pool\w* fft\w* rnn lstm gru interp\w* upsampl\w* resize nearest\w* grid_sampl\w* nms roi\w* (?:sp)?[cb]sr\w*
    coo\w* sp[mg]\w* t[bpr]sv trsm
    [sdcz]?(?:getf|getr[fsi]|geqrf?|potr[fs]|laswp\w*|lar[ft]\w*|laed|lacpy|latrd|syev\w*|gesvd\w*|sytrd|hetrd) svd
    lu householder jacobi sytd pivot\w* ipiv eigen\w* inverse gtsv\w* pcr l[rfx]u_cache one_hot cross_kernel nll
    class_nll ctc loss kl_?div jsd tvd kl flip reverse roll hash bucketize hadamard ngram \w*adaptive\w* avg average
    unpool\w* [cp]dist lrn binary_search semi_structured sparse_24 sparse_nm coalesce\w* krn ger[uc]?
    [sdcz]?ger[uc]? block_tables? slot_mappings? permute_pooled
elementwise:
    silu gelu relu swi_?glu swish gated_(?:fwd|bwd|forward|backward) ge_?glu glu_(?:fwd|bwd|forward|backward|kernel)
    scal_or_zero op_(?:\w+_)?tensor bin_bcast apply_\w*gemm_bias sigmoid tanh act(?:ivation)?_and_mul act_and_mul
    (?<!permute_)activation dropout \w*adam\w* lamb sgd adagrad rmsprop lion optimizer\w* situ r_?relu temperature
    clip [sdcz]lascl soft_?cap leaky mish \w+_element_?wise elem(?:ent)?_?wise_\w+ point_?wise_\w+ elem_wise
copy/cast:
    \w*quant\w* (?:up|down)?cast casts cvt convert\w* reconstruct copy copies transpose\w* permute\w* unpermute
    nchw\w* nhwc\w* concat cat (?:un)?pack pad padding unpad mem_?cpy reorder swap_(?:blocks|dimension|first)
    swizzle layout_transform unswizzle transfer sparse_to_dense transform_?filter deep_?copy [sdcz]transpose\w*
    [sdcz]swap shuffle_in_tensor\w* shuffle_\d_?bit make_sequential interleave \w*filter_reorder reorder_\w+_filter
    (?:float|double|half|bf|fp|int)(?:_\d+)?_(?:2|to)_(?:float|double|half|bf|fp|int|fused|padded|\d+_bits)\w*
    to_(?:float|half|bf_?(?:loat_)?16|fp_?16)
reduction: reduces
    renorm\w* (?:row_)?stats_kernel i?[sdcz]?amax arg_?(?:max|min) abs_?max asum nrm_?2 dot sum mean reduce_kernel
    reduce_all dbias reduction reduce_\w+_kernel segment(?:ed)?_reduce logsumexp
fill/mask:
    fill\w* set_tensor\w* [sdcz]laset\w* mem_?set set_zeros? zeros? set_...identity tri[lu] tril?u triu_tril
    \w*bit_?mask mask_output arange iota eye masked_fill init(?:ialize)?_(?:buffer|tensor|zero)\w*
elementwise:
    add addc(?:mul|div) mul geam div scal scale(?!_to) axpy axpby bias residual sqrt clamp lerp
    ^(?:sub|exp|log|pow|neg|abs) penalt\w+ unary_\w+ binary_\w+
"""


def _pattern(listed: str) -> str:
    return "|".join(listed.split()).replace("_", " ").replace("...", "(?:[a-z0-9]+ ){0,6}")


#: (family, what, pattern) of each rule.
PARSED = tuple(
    (family, what.strip(), _pattern(listed))
    for family, what, listed in re.findall(r"^(\S[^:\n]*):(.*)\n((?: .*\n)+)", RULES, re.MULTILINE)
)


@cache
def _any_rule() -> re.Pattern[str]:
    """One expression for all rules, for speed: at each word, the first rule that matches there."""
    return re.compile(r"\b(?=" + "|".join(rf"((?:{pattern})\b)" for *_, pattern in PARSED) + ")")


@lru_cache(maxsize=8192)
def by_words(text: str) -> tuple[str, str]:
    """(family, what) by the words of a name; (``unknown``, "") if no rule matches."""
    matches = [(match.lastindex, match[match.lastindex]) for match in _any_rule().finditer(text) if match.lastindex]
    if not matches:
        return UNKNOWN, ""
    rule, matched = min(matches, key=lambda each: each[0])
    family, what, _ = PARSED[rule - 1]
    return family, what or matched.strip()
