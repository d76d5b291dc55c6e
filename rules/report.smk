# Figures, tables, claims.
localrules:
    audits,
    scenario,


rule scenario:
    "A scenario with all defaults filled in."
    output:
        yaml=f"{RESULTS}/{{scenario}}/scenario.yaml",
        csv=f"{RESULTS}/{{scenario}}/parameters.csv",
        parquet=f"{RESULTS}/{{scenario}}/parameters.parquet",
    log:
        f"logs/report/{study.name}/{{scenario}}/scenario.log",
    conda:
        "../envs/environment.yaml"
    params:
        resolved=lambda wildcards: model(wildcards).model_dump(),
        code=store.code("pwfl.scenario.resolved")["code"],
    message:
        "{wildcards.scenario}: resolved scenario"
    script:
        "../scripts/scenario.py"


# Systems differ in their tables and figures, so each has rules of its own for them. One job draws all
# figures of a scenario: starting one costs more than drawing them.
for system in dict.fromkeys(chosen.system for chosen in study.scenarios.values()):

    rule:
        "A scenario's results, realization by realization and round by round."
        name:
            f"tables_{system}"
        input:
            addresses=lambda wildcards: local(listed[wildcards.scenario]),
            schedule_status=lambda wildcards: scheme_files("schedule_status", wildcards),
            noise_status=lambda wildcards: scheme_files("noise_status", wildcards),
            history=lambda wildcards: scheme_files("history", wildcards),
            leakage=lambda wildcards: scheme_files("leakage", wildcards),
            outcome=lambda wildcards: scheme_files("outcome", wildcards),
        output:
            csv=expand(
                f"{RESULTS}/{{{{scenario}}}}/{{table}}.csv",
                table=registry.system(system).catalog.tables,
            ),
            parquet=expand(
                f"{RESULTS}/{{{{scenario}}}}/{{table}}.parquet",
                table=registry.system(system).catalog.tables,
            ),
        log:
            f"logs/report/{study.name}/{{scenario}}/tables.log",
        benchmark:
            f"logs/report/{study.name}/{{scenario}}/tables.tsv"
        wildcard_constraints:
            scenario=scenarios_of(system),
        conda:
            "../envs/environment.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=10,
        params:
            depends=report_depends,
            captions=registry.system(system).catalog.tables,
        message:
            "{wildcards.scenario}: tables"
        script:
            "../scripts/tables.py"

    rule:
        "A scenario's figures."
        name:
            f"figures_{system}"
        input:
            unpack(figure_files),
            addresses=lambda wildcards: local(listed[wildcards.scenario]),
        output:
            **drawn(
                f"{RESULTS}/{{{{scenario}}}}/{{figure}}",
                [(system, figure) for figure in figures_of(system)],
                category="{scenario}",
            ),
        log:
            f"logs/report/{study.name}/{{scenario}}/figures.log",
        benchmark:
            f"logs/report/{study.name}/{{scenario}}/figures.tsv"
        wildcard_constraints:
            scenario=scenarios_of(system),
        conda:
            "../envs/environment.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=10,
        params:
            depends=report_depends,
        message:
            "{wildcards.scenario}: figures"
        script:
            "../scripts/figures.py"


rule audited:
    "What a scenario's audit found."
    input:
        addresses=lambda wildcards: local(listed[wildcards.scenario]),
        audit=lambda wildcards: scheme_files("audit", wildcards),
    output:
        csv=f"{RESULTS}/{{scenario}}/audit.csv",
        parquet=f"{RESULTS}/{{scenario}}/audit.parquet",
    log:
        f"logs/report/{study.name}/{{scenario}}/audited.log",
    benchmark:
        f"logs/report/{study.name}/{{scenario}}/audited.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        depends=report_depends,
    message:
        "{wildcards.scenario}: table of the audit"
    script:
        "../scripts/audited.py"


rule audits:
    "The audits of all scenarios, points of sweeps as well, which the whole study leaves out."
    input:
        expand(f"{RESULTS}/{{scenario}}/audit.csv", scenario=study.scenarios),


rule comparison:
    "Tables and figures over all scenarios of the study: claims, outcomes, summary."
    input:
        [
            f"{RESULTS}/{name}/{table}.parquet"
            for name, chosen in study.scenarios.items()
            for table in registry.system(chosen.system).catalog.tables
        ],
    output:
        **drawn(
            f"{RESULTS}/{{system}}_{{figure}}",
            comparison_figures(),
            category="Comparison",
        ),
        csv=expand(f"{RESULTS}/{{table}}.csv", table=catalog.COMPARISON),
        parquet=expand(f"{RESULTS}/{{table}}.parquet", table=catalog.COMPARISON),
    log:
        f"logs/report/{study.name}/comparison.log",
    benchmark:
        f"logs/report/{study.name}/comparison.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        depends=store.comparison(study),
        captions=catalog.COMPARISON,
        figures=comparison_figures(),
    message:
        f"comparison of the scenarios of {study.name}"
    script:
        "../scripts/comparison.py"


rule page:
    "One file to open: what the study is, its claims, figures and tables, with links to the files beside it."
    input:
        page_files(),
    output:
        report(
            f"{RESULTS}/index.html",
            caption="../report/page.rst",
            category="Study",
            labels={"figure": "all figures and tables, interactive"},
        ),
    log:
        f"logs/report/{study.name}/page.log",
    benchmark:
        f"logs/report/{study.name}/page.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        depends=store.page(study),
        parts=page_parts(),
    message:
        f"page of {study.name}"
    script:
        "../scripts/page.py"
