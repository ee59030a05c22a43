"""Meaning of each trainer's keys: one row a trainer, its keys and documented defaults.

`GENERIC` has no signature keys: its keys are tried after those of the trainer that wrote the log, and alone where that
is not known. A new trainer is a row of `TRAINERS`; of trainers with equally many signature keys the first is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.trainer import ADAM, Derived, Trainer, trainer_like, trainer_row

GENERIC = trainer_row(
    name="unknown trainer",
    signature="",
    keys="""step: train/global_step | training_step | step | global_step | training/global_step | progress/step |
        train_step | train/step | optimizer_step | steps | iteration | iter | update | rollout/step | grpo_step |
        rollout_step | outer_step | _step | batch | rollout;
        reward: reward train_reward ~reward ~train_reward average_reward ~rewards reward_trace score/mean mean_score
        mean_r r_mean;
        heldout: ^reward ^reward/overall eval_rewards eval_reward_mean eval_mean_reward eval/reward_mean
        eval/mean_reward eval/reward/mean ^accuracy ^acc ^win_rate ^solved ^pass_rate ^~reward val-core/**/mean@*
        val/**/mean@* ^pass_at_1 ^pass@1 ^solve_rate ^success_rate ^score ^correct ^exact_match ^chrf ^bleu ^f1
        ^total_rewards_mean eval/**/reward eval/**/reward/mean eval/**/mean_reward eval/**/accuracy
        val/**/reward val/**/accuracy test/**/reward eval/**/pass_at_1 eval/**/pass@1;
        reward_std: reward_std reward/std std_reward reward_stdev rewards/std group_reward_std rollout_reward_std
        group_rewards/std grouped_rewards_std std;
        frac_reward_zero_std: frac_reward_zero_std zvf zero_variance_frac zero_std_frac zero_std_ratio frac_zero_std
        flat_group_fraction zero_std_group_ratio zero_advantage_fraction degenerate_frac;
        entropy: ~entropy policy/entropy token_entropy optim/entropy ~policy_entropy
        actor_entropy;
        kl: ~kl kl_divergence kl_div approx_kl kl_loss kl_k3 reference_kl ref_kl ~exact_kl ~kl_penalty=penalty;
        clip_ratio: clip_ratio/region_mean clip_ratio clip_frac clipfrac clip_fraction train_clip_fraction
        cispo_clip_ratio;
        grad_norm: ~grad_norm gradient_norm optim/grad_norm gnorm grad;
        stiffness: curvature/stiffest; stability_margin: curvature/margin;
        completion_length: completions/mean_length ~completion_length ~response_length ~completion_len ~response_len
        ~completion_tokens ~gen_length resp_len avg_response_token_length avg_gen_tokens mean_length avg_length
        avg_sequence_length train_mean_length mean_generation_length mean_len avg_len avglen len length gen_len
        mean_tokens avg_tokens seq._length action_tokens_mean;
        learning_rate: learning_rate lr optim/lr optim/learning_rate;
        loss: ~loss ~train_loss policy_loss actor_loss act_loss pg_loss training_loss grpo_loss total_loss;
        accuracy: ~accuracy ~accuracies acc train_accuracy correct success success_rate train_success_rate
        solve_rate canonical_pass_rate;
        completions_clipped_ratio: completions_clipped_ratio completions/clipped_ratio truncation_rate truncated_ratio
        trunc_rate trunc_ratio truncated_frac truncation clipped_ratio truncated_completions_ratio
        ~truncated_completions;
        gold_reward: gold_reward reward/gold gold_reward_mean gold_score true_reward reward/correctness_f reward/f;
        engine_mismatch: engine_mismatch kl_divergence_inference=k3 mismatch_kl=k3;
        staleness: staleness staleness_mean async/staleness_mean async/steps_since_sync policy_version_gap_mean
        off_policy/lag_batches;
        step_time: step_time time/step step_seconds seconds_per_step time/total timing/step timing_s/step perf/step_s
        step_elapsed_sec; step_cost: step_cost cost_per_step; total_cost: total_cost cumulative_cost;
        update_kl: ppo_kl approxkl; importance_ratio: importance_ratio/mean tis_mean=sampler;
        importance_ess: importance_ess; ratio_clipped: seq_is_masked_frac;
        dropped: dropped stale_results_dropped=samples stale_groups_dropped=groups;
        filtered_groups: filtered_groups; turns: ~num_turns turns_per_episode ~turns;
        tool_calls: ~tool_calls ~tool_call_counts tools/call_frequency; expert_load: aux_loss=loss;
        advantage_max: advantage_max max_advantage advantages/max; completion_length_max: completion_length_max
        completions/max_length response_length/max""",
    prefixes=("", "train/"),
)

_TRL = trainer_row(
    name="TRL",
    signature="""rewards/** completions/mean_length clip_ratio/region_mean eval_rewards/** num_tokens train_runtime
        eval_runtime""",
    keys="""step: train/global_step global_step | step | _step; reward: reward;
        heldout: eval_reward eval/reward eval_*_reward eval/*_reward;
        engine_mismatch: sampling/sampling_logp_difference/mean=abs;
        importance_ratio: sampling/importance_sampling_ratio/mean=sampler; tool_calls: tools/call_frequency;
        expert_load: aux_loss=loss; completion_length_max: completions/max_length""",
    prefixes=("", "train/"),
    defaults=ADAM | {"group_size": 8, "schedule": "linear"},
    rows_without_rollout=True,
)

_VERL = trainer_row(
    name="verl",
    signature="critic/score/mean critic/rewards/mean actor/** val-core/** training/global_step",
    keys="""step: training/global_step step | step | _step; reward: critic/score/mean critic/rewards/mean;
        heldout: val-core/**/mean@* val-core/** val/test_score/** val/**; entropy: actor/entropy actor/entropy_loss;
        kl: actor/kl_loss actor/reward_kl_penalty critic/kl; clip_ratio: actor/pg_clipfrac; grad_norm: actor/grad_norm;
        completion_length: response_length/mean response_length_non_aborted/mean;
        learning_rate: actor/lr; loss: actor/pg_loss actor/loss; update_kl: actor/ppo_kl;
        engine_mismatch: rollout_corr/k3_kl=k3 training/rollout_probs_diff_mean=prob rollout_corr/kl=k1
        rollout_corr/log_ppl_abs_diff=ppl; importance_ratio: rollout_corr/rollout_is_mean=sampler;
        importance_ess: rollout_corr/rollout_is_eff_sample_size=sampler;
        ratio_clipped: rollout_corr/rollout_is_ratio_fraction_high;
        staleness: training/off_policy/trajectory_staleness/mean; step_time: perf/time_per_step timing_s/step;
        dropped: training/off_policy/evicted_samples=groups training/off_policy/dropped_samples=groups
        fully_async/count/dropped_stale_samples=sofar;
        filtered_groups: training/filter_groups/evicted_samples=groups training/filter_groups/dropped_samples=groups;
        turns: num_turns/mean training/num_turns/mean; tool_calls: tool_call_counts/mean;
        advantage_max: critic/advantages/max; completion_length_max: response_length/max;
        completions_clipped_ratio: response_length/clip_ratio""",
    derived=(
        Derived("expert_load", {"rollout/moe/max_vio/*": 1.0}, pool="mean", definition="violation"),
        Derived("learning_rate", {"actor/lr(1e-4)": 1e-4}),  # of its first versions
    ),
    defaults=ADAM | {"prompts_per_step": 1024, "schedule": "constant"},
    config="""group_size: actor_rollout_ref/rollout/n; prompts_per_step: data/train_batch_size;
        momentum: actor_rollout_ref/actor/optim/betas/0;
        schedule: actor_rollout_ref/actor/optim/lr_scheduler_type actor_rollout_ref/actor/optim/warmup_style;
        total_steps: trainer/total_training_steps actor_rollout_ref/actor/optim/total_training_steps;
        save_steps: trainer/save_freq""",
)

TRAINERS = (
    _TRL,
    trainer_like(  # whose kl is that of the sampler to the trainer
        _TRL,
        name="TRL AsyncGRPO",
        signature=f"sample/staleness_mean sample/rollout_queue_size {' '.join(_TRL.signature)}",
        keys="""engine_mismatch: sampling/sampling_logp_difference/mean=abs kl=kl; kl: ref_kl;
            staleness: sample/staleness_mean; dropped: sample/dropped_stale_total=samples; step_time: perf/step_s""",
    ),
    trainer_row(
        name="TRL (PPO, RLOO)",
        signature="objective/scores objective/rlhf_reward objective/non_score_reward val/num_eos_tokens",
        keys="""step: train/global_step global_step | step; reward: objective/scores;
            heldout: eval_reward eval/reward eval_objective/scores; entropy: policy/entropy_avg; kl: objective/kl;
            update_kl: policy/approxkl_avg; clip_ratio: policy/clipfrac_avg; loss: loss/policy_avg loss""",
        prefixes=("", "train/"),
        defaults=ADAM | {"schedule": "linear"},
    ),
    _VERL,
    trainer_row(
        name="OpenRLHF",
        signature="actor_lr actor_grad_norm ppo_clip_ratio",
        keys="""step: train/global_step eval/global_step | step; reward: reward;
            heldout: eval/*pass1 eval/*pass*; entropy: entropy_loss; clip_ratio: ppo_clip_ratio;
            grad_norm: actor_grad_norm; learning_rate: actor_lr; loss: policy_loss act_loss; update_kl: ppo_kl;
            engine_mismatch: logprobs_diff=abs vllm_kl=k1; dropped: rollout/dropped/total=groups;
            step_time: timing/step_total; completions_clipped_ratio: truncated""",
        prefixes=("train/", ""),
        derived=(Derived("filtered_groups", {"train/dynamic_filtering_pass_rate": -0.01}, 1.0, definition="share"),),
        defaults=ADAM | {"prompts_per_step": 1024, "schedule": "cosine"},
        std_kind="within",
        config="""group_size: rollout/n_samples_per_prompt n_samples_per_prompt;
            prompts_per_step: rollout/batch_size rollout_batch_size;
            momentum: actor/adam/betas/0 actor/adam_betas/0 adam_betas/0; schedule: actor/lr_scheduler lr_scheduler""",
    ),
    trainer_row(
        name="prime-rl",
        signature="""train/agg/** mismatch_kl/all/mean entropy/all/mean is_masked/** off_policy/** grad._norm
            peak_mem. zero_advantage/rollouts""",
        keys="""reward: train/agg/all/*/reward/mean train/agg/effective/*/reward/mean reward/all/mean reward/mean;
            heldout: eval/*/all/*/avg@* eval/*/effective/*/avg@* eval/**/avg@*; entropy: entropy/all/mean entropy/mean;
            grad_norm: grad._norm; frac_reward_zero_std: zero_advantage/rollouts;
            engine_mismatch: mismatch_kl/all/mean=k3 mismatch_kl/mean=k3; clip_ratio: is_masked/all/mean is_masked/mean;
            completion_length: train/agg/all/*/num_output_tokens/mean train/agg/effective/*/num_output_tokens/mean
            seq_len/all/mean; loss: loss/mean loss/all/mean; staleness: off_policy/mean;
            importance_ratio: importance_ratio/all/mean=sampler importance_ratio/mean=sampler;
            dropped: off_policy/dropped=samples; turns: train/agg/all/*/num_turns/mean;
            expert_load: max_vio/mean=violation; completion_length_max: train/agg/all/*/num_output_tokens/max;
            completions_clipped_ratio: train/agg/all/*/is_truncated/mean""",
        derived=(
            Derived("frac_reward_zero_std", {"train/agg/all/*/solved_none": 1.0, "train/agg/all/*/solved_all": 1.0}),
            Derived("frac_reward_zero_std", {"trainable": -1.0}, 1.0),  # of its console
        ),
        reward_place="in the log of its orchestrator, on lines such as 'Step 3 | Reward: 0.24'",
        config="""group_size: orchestrator/group_size group_size orchestrator/rollouts_per_example
            rollouts_per_example; momentum: trainer/optim/betas1 optim/betas1;
            total_steps: max_steps orchestrator/max_steps; save_steps: ckpt/interval trainer/ckpt/interval;
            completions_per_step: orchestrator/batch_size batch_size""",
    ),
    trainer_row(
        name="NeMo-RL",
        signature="""train/baseline_reward/** train/probs_ratio train/approx_entropy train/gen_kl_error
            generation_kl_error""",
        keys="""reward: train/reward avg_reward; heldout: validation/accuracy validation/reward;
            entropy: train/approx_entropy; kl: train/kl_penalty; step_time: timing/train/total_step_time;
            completion_length: train/mean_gen_tokens_per_sample; staleness: train/avg_trajectory_age;
            engine_mismatch: train/gen_kl_error=k3 generation_kl_error=k3;
            importance_ratio: train/sampling_importance_ratio=sampler; ratio_clipped: train/is_oob_ratio;
            turns: train/avg_turns_per_sample train/turns_per_sample/mean""",
        derived=(
            Derived("engine_mismatch", {"train/token_mult_prob_error": 1.0}, -1.0, definition="factor"),
            Derived("frac_reward_zero_std", {"train/baseline_reward/pct_mixed": -0.01}, 1.0),
            Derived("frac_reward_zero_std", {"train/baseline_reward/pct_0": 0.01, "train/baseline_reward/pct_1": 0.01}),
        ),
        defaults=ADAM | {"group_size": 16, "prompts_per_step": 32, "schedule": "constant"},
        config="""group_size: grpo/num_generations_per_prompt; prompts_per_step: grpo/num_prompts_per_step;
            momentum: policy/optimizer/kwargs/betas/0 policy/megatron_cfg/optimizer/adam_beta1;
            total_steps: grpo/max_num_steps; save_steps: checkpointing/save_period""",
    ),
    trainer_row(
        name="open-instruct",
        signature="objective/verifiable_reward val/sequence_lengths batch/filtered_prompts",
        keys="""step: training_step | step | _step; reward: scores objective/verifiable_reward;
            heldout: eval/scores eval/pass_at_1; entropy: policy/entropy_avg;
            kl: loss/kl_avg objective/kl_avg objective/kl3_avg; clip_ratio: policy/clipfrac_avg;
            completion_length: val/sequence_lengths; completion_length_max: val/sequence_lengths_max;
            loss: loss/policy_avg loss/total_avg; update_kl: policy/approxkl_avg;
            engine_mismatch: debug/vllm_vs_local_logprob_diff_mean=abs debug/vllm_local_reverse_kl=weighted;
            importance_ratio: val/rho_weight=sampler; ratio_clipped: val/rho_clipfrac;
            dropped: stale_results_dropped=samples; tool_calls: tools/aggregate/avg_calls_per_rollout;
            filtered_groups: batch/filtered_prompts=groups""",
        defaults=ADAM | {"group_size": 4, "prompts_per_step": 16},
        config="""group_size: num_samples_per_prompt_rollout; prompts_per_step: num_unique_prompts_rollout;
            schedule: lr_scheduler_type; total_steps: num_training_steps""",
    ),
    trainer_row(
        name="AReaL",
        signature="ppo_actor/**",
        keys="""reward: ppo_actor/task_reward/avg rollout/reward; heldout: eval-rollout/reward;
            entropy: ppo_actor/update/entropy/avg;
            update_kl: ppo_actor/update/approx_kl/avg;
            engine_mismatch: ppo_actor/update/behave_approx_kl/avg=signed;
            importance_ratio: ppo_actor/update/behave_imp_weight/avg=sampler
            ppo_actor/update/importance_weight/avg=update; ratio_clipped: ppo_actor/update/behave_filtered_ratio/avg;
            staleness: ppo_actor/update/version_stats/sample_staleness_theta_avg;
            clip_ratio: ppo_actor/update/clip_ratio/avg; grad_norm: ppo_actor/update/grad_norm;
            completion_length: ppo_actor/seq_len/avg; learning_rate: ppo_actor/update/lr;
            completions_clipped_ratio: ppo_actor/no_eos_ratios/avg""",
        defaults=ADAM | {"schedule": "constant"},
        config="""group_size: gconfig/n_samples; prompts_per_step: train_dataset/batch_size;
            momentum: actor/optimizer/beta1; schedule: actor/optimizer/lr_scheduler_type;
            total_steps: total_train_steps""",
    ),
    trainer_row(
        name="slime",
        signature="rollout/raw_reward rollout/zero_std/** rollout/response_len/mean train/lr-pg_0",
        keys="""step: train/step | rollout/step eval/step | step | _step; reward: rollout/raw_reward; heldout: eval/*;
            entropy: train/entropy_loss rollout/entropy; clip_ratio: train/pg_clipfrac;
            completion_length: rollout/response_len/mean rollout/response_lengths; learning_rate: train/lr-pg_0;
            loss: train/pg_loss train/loss; update_kl: train/ppo_kl; step_time: perf/step_time;
            engine_mismatch: train/train_rollout_logprob_abs_diff=abs train/train_rollout_kl=k3;
            importance_ratio: train/tis=sampler train/ois=update;
            importance_ess: train/rollout_ess_ratio=sampler train/ess_ratio=update; ratio_clipped: train/tis_clipfrac;
            staleness: rollout/sample_staleness;
            dropped: rollout/fully_async/stale_groups_dropped=groups rollout/stale_groups_dropped=groups;
            completion_length_max: rollout/response_len/max;
            completions_clipped_ratio: rollout/truncated_ratio rollout/truncated""",
        reward_place="on the rows of its rollouts",
        rollouts="rollout/step eval/step",
        derived=(
            Derived(
                "filtered_groups", {"rollout/dynamic_filter/drop_zero_std_*": 1.0}, pool="sum", definition="groups"
            ),
            Derived("filtered_groups", {"rollout/zero_std/count_*": 1.0}, pool="sum", definition="flat"),
        ),
        config="""group_size: n_samples_per_prompt; momentum: adam_beta1; schedule: lr_decay_style;
            completions_per_step: global_batch_size""",
        rows_without_rollout=True,
    ),
    trainer_row(
        name="mlx-lm-lora",
        signature="""train_total_rewards_mean train_grouped_rewards_mean train_clip_ratio_total grouped_rewards_mean
            grouped_rewards_std""",
        keys="""step: iteration | step | _step; reward: train_total_rewards_mean total_rewards_mean;
            heldout: val_total_rewards_mean; reward_std: train_total_rewards_std total_rewards_std;
            kl: train_kl; clip_ratio: train_clip_ratio_total;
            completion_length: train_average_generated_tokens average_generated_tokens;
            completions_clipped_ratio: train_hit_max_tokens_ratio hit_max_tokens_ratio""",
        defaults=ADAM | {"group_size": 4},
        std_kind="total",
        config="group_size: group_size; prompts_per_step: batch_size; total_steps: iters",
    ),
    trainer_row(
        name="ART",
        signature="train/reward_std_dev data/step_num_groups* loss/kl_policy_ref",
        keys="""step: training_step step | _step; reward: train/reward; heldout: val/reward test/reward;
            reward_std: train/reward_std_dev; entropy: loss/entropy train/entropy; kl: loss/kl_div loss/kl_policy_ref;
            grad_norm: loss/grad_norm train/grad_norm; completion_length: train/completion_tokens;
            learning_rate: loss/learning_rate train/learning_rate; loss: loss/train train/policy_loss;
            step_time: time/step_wall_s; step_cost: costs/all; total_cost: costs/cum/all""",
        derived=(
            Derived(
                "frac_reward_zero_std", {"data/step_num_groups_trainable": -1.0}, 1.0, "data/step_num_groups_submitted"
            ),
        ),
        std_kind="within",
    ),
    trainer_row(
        name="Tinker cookbook",
        signature="progress/done_frac progress/batch env/all/** optim/kl_sample_train_v1",
        keys="""step: step | progress/batch | progress/step;
            reward: env/all/reward/total reward/total reward/mean env/all/reward/mean;
            heldout: test/env/all/reward/total test/env/all/correct test/**/reward/total eval/**/reward/total;
            kl: kl_policy_base; engine_mismatch: optim/kl_sample_train_v1=k1 optim/kl_sample_train_v2=k2;
            turns: env/all/turns_per_episode; step_time: time/total; staleness: async/staleness_mean;
            completion_length: env/all/ac_tokens_per_turn env/all/ac_tokens_per_trajectory; loss: optim/loss loss;
            total_cost: eval/snapshot/cumulative_cost_usd; accuracy: env/all/correct""",
        derived=(
            Derived(
                "frac_reward_zero_std",
                {"env/all/by_group/frac_all_good": 1.0, "env/all/by_group/frac_all_bad": 1.0},
                skip_all_zero=True,
            ),
            Derived("frac_reward_zero_std", {"env/all/by_group/frac_mixed": -1.0}, 1.0, skip_all_zero=True),
        ),
        defaults=ADAM | {"schedule": "constant"},
        config="""group_size: dataset_builder/group_size group_size;
            prompts_per_step: dataset_builder/batch_size groups_per_batch""",
    ),
    trainer_like(  # whose step is text
        _TRL,
        name="ms-swift",
        signature=f"global_step/max_steps entropy/mean rollout_correction/** {' '.join(_TRL.signature)}",
        keys="""step: global_step/max_steps iteration | train/global_step global_step | step | _step;
            engine_mismatch: rollout_correction/k3_kl=k3 rollout_correction/kl=k1
            rollout_correction/log_ppl_abs_diff=ppl; importance_ratio: rollout_correction/is_weight_mean=sampler;
            importance_ess: rollout_correction/ess=sampler; ratio_clipped: rollout_correction/clipped_frac;
            turns: num_turns""",
    ),
    trainer_row(
        name="SkyRL",
        signature="""reward/avg_raw_reward reward/avg_pass_at_* generate/avg_num_tokens policy/policy_entropy
            trainer/global_step""",
        keys="""step: trainer/global_step | step | _step; reward: reward/avg_raw_reward;
            heldout: eval/all/avg_score eval/*/avg_score; entropy: policy/policy_entropy;
            kl: policy/policy_kl policy_kl; grad_norm: policy/raw_grad_norm policy/grad_norm;
            clip_ratio: policy/loss_metrics/clip_ratio loss_metrics/clip_ratio policy/ppo_clip_ratio;
            completion_length: generate/avg_num_tokens avg_response_length;
            learning_rate: policy/policy_lr policy_lr; loss: policy/policy_loss policy/final_loss;
            engine_mismatch: policy/rollout_train_logprobs_abs_diff_mean=abs; step_time: timing/step;
            importance_ratio: policy/loss_metrics/is_ratio_mean=sampler; staleness: async/staleness_mean;
            dropped: async/num_groups_dropped=groups; turns: generate/avg_num_turns;
            filtered_groups: reward/num_zero_variance_filtered=groups reward/num_zero_variance_groups=flat;
            completion_length_max: generate/max_num_tokens""",
        config="""group_size: generator/n_samples_per_prompt; prompts_per_step: trainer/train_batch_size;
            momentum: trainer/policy/optimizer_config/adam_betas/0;
            schedule: trainer/policy/optimizer_config/scheduler""",
    ),
    trainer_like(
        _VERL,
        name="EasyR1",
        signature="""val/reward_score actor/pg_clipfrac_higher actor/pg_clipfrac_lower reward/overall
            critic/score/mean critic/rewards/mean actor/**""",
        keys="""step: step | _step; reward: critic/score/mean critic/rewards/mean reward/overall;
            heldout: val/reward_score val/overall_reward""",
        derived=(Derived("clip_ratio", {"actor/pg_clipfrac_higher": 1.0, "actor/pg_clipfrac_lower": 1.0}),),
        defaults=ADAM | {"schedule": "constant"},
        config="""group_size: worker/rollout/n; prompts_per_step: data/rollout_batch_size;
            momentum: worker/actor/optim/betas/0; schedule: worker/actor/optim/lr_scheduler_type;
            total_steps: trainer/max_steps; save_steps: trainer/save_freq""",
    ),
    trainer_like(  # over verl
        _VERL,
        name="rLLM",
        signature="""batch/*/fractions/effective batch/*/fractions/too_easy batch/*/fractions/too_hard
            critic/rewards/mean actor/**""",
        keys="""reward: reward/*/mean critic/score/mean critic/rewards/mean; heldout: val/**/pass@1;
            staleness: async/staleness_mean async/steps_since_sync; step_time: timing_s/step perf/time_per_step""",
        derived=(Derived("frac_reward_zero_std", {"batch/*/fractions/effective": -1.0}, 1.0),),
    ),
    trainer_row(
        name="ROLL",
        signature="""val_correct/** critic/entropy/mean token*/response_length/mean actor/ppo_ratio_clipfrac*
            actor_train/** critic/score/mean critic/rewards/mean actor/**""",
        keys="""step: system/step | step | _step; reward: critic/score/mean critic/rewards/mean;
            heldout: val_correct/all/mean val_correct/*/mean; entropy: critic/entropy/mean actor/entropy_mean;
            kl: actor/kl_loss* critic/kl; update_kl: actor/policykl* actor/approxkl*;
            clip_ratio: actor/ppo_ratio_clipfrac*;
            grad_norm: actor_train/grad_norm actor/grad_norm;
            completion_length: tokens/response_length/mean token/response_length/mean; learning_rate: actor/lr*;
            loss: actor/pg_loss* actor/total_loss*""",
        config="""group_size: num_return_sequences_in_group; prompts_per_step: rollout_batch_size;
            total_steps: max_steps""",
    ),
    trainer_row(  # whose total is the mean of its reward functions
        name="torchforge",
        signature="""reward/evaluate_response/** grpo_loss/** buffer/sample/avg_sampled_policy_age
            main/continuous_rollouts/**""",
        keys="""step: global_step | step | _step;
            reward: reward/evaluate_response/avg_total_reward reward/evaluate_response/avg_reward;
            kl: grpo_loss/kl_divergence_mean; loss: grpo_loss/total_loss rl_trainer/avg_loss rl_trainer/loss;
            learning_rate: rl_trainer/learning_rate; completion_length: episode/avg_response_tokens;
            completion_length_max: episode/max_response_tokens; staleness: buffer/sample/avg_sampled_policy_age""",
        config="group_size: group_size; total_steps: trainer/training/steps",
    ),
    trainer_row(
        name="Baseten Loops",
        signature="reward/group_std_mean",
        keys="reward: reward/mean; reward_std: reward/group_std_mean",
        std_kind="within",
    ),
    trainer_row(name="MiniMind", signature="kl_ref adv_std actor_loss", keys="reward: reward; kl: kl_ref"),
)
"""Every trainer. Groups all right and groups all wrong have no spread, mixed ones have."""


def trainer_named(name: str) -> Trainer:
    """The trainer of a name as its authors write it; `GENERIC` where there is none."""
    return next((t for t in TRAINERS if t.name == name), GENERIC)


def identify(index: KeyIndex, known: Sequence[Trainer] = TRAINERS) -> Trainer:
    """The trainer with most of its signature keys present, the first of equals; `GENERIC` where none has any."""
    present = [sum(bool(index.find([key], t.prefixes)) for key in t.signature) for t in known]
    return known[present.index(max(present))] if any(present) else GENERIC
