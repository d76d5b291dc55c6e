# Figures, tables, claims.
localrules:
    scenario,


rule scenario:
    output:
        yaml="results/{scenario}/scenario.yaml",
        csv=report(
            "results/{scenario}/report/parameters.csv",
            caption="../report/parameters.rst",
            category="{scenario}",
            subcategory="tables",
            labels={"item": "parameters", "format": "CSV"},
        ),
        parquet="results/{scenario}/report/parameters.parquet",
    log:
        "logs/{scenario}/scenario.log",
    conda:
        "../envs/environment.yaml"
    params:
        resolved=lambda wildcards: model(wildcards).model_dump(),
    message:
        "{wildcards.scenario}: resolved scenario"
    script:
        "../scripts/scenario.py"


# Systems differ in their tables and figures, so each has rules of its own for them. One job draws all
# figures of a scenario: starting one costs more than drawing them.
for system in catalog.FIGURES:

    rule:
        name:
            f"tables_{system}"
        input:
            schedule_status=lambda wildcards: scheme_files("schedule_status", wildcards),
            noise_status=lambda wildcards: scheme_files("noise_status", wildcards),
            history=lambda wildcards: scheme_files("history", wildcards),
            leakage=lambda wildcards: scheme_files("leakage", wildcards),
            outcome=lambda wildcards: scheme_files("outcome", wildcards),
            audit=lambda wildcards: scheme_files("audit", wildcards),
        output:
            csv=[
                report(
                    f"results/{{scenario}}/report/{table}.csv",
                    caption="../report/table.rst",
                    category="{scenario}",
                    subcategory="tables",
                    labels={"item": table, "format": "CSV"},
                )
                for table in catalog.TABLES[system]
            ],
            parquet=[
                f"results/{{scenario}}/report/{table}.parquet" for table in catalog.TABLES[system]
            ],
        log:
            "logs/{scenario}/report/tables.log",
        benchmark:
            "benchmarks/jobs/{scenario}/report/tables.tsv"
        wildcard_constraints:
            scenario=scenarios_of(system),
        conda:
            "../envs/environment.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=10,
        params:
            depends=depends("report"),
            captions=catalog.TABLES[system],
        message:
            "{wildcards.scenario}: tables"
        script:
            "../scripts/tables.py"

    rule:
        name:
            f"figures_{system}"
        input:
            unpack(figure_files),
        output:
            **drawn(
                "results/{{scenario}}/report/{figure}",
                [(system, figure) for figure in catalog.FIGURES[system]],
                category="{scenario}",
            ),
        log:
            "logs/{scenario}/report/figures.log",
        benchmark:
            "benchmarks/jobs/{scenario}/report/figures.tsv"
        wildcard_constraints:
            scenario=scenarios_of(system),
        conda:
            "../envs/environment.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=10,
        params:
            depends=depends("report"),
        message:
            "{wildcards.scenario}: figures"
        script:
            "../scripts/figures.py"


rule comparison:
    input:
        [
            f"results/{name}/report/{table}.parquet"
            for name, chosen in study.scenarios.items()
            for table in catalog.TABLES[chosen.system]
        ],
    output:
        **drawn(
            "results/comparison/{{study}}/{system}_{figure}",
            comparison_figures(),
            category="Comparison",
        ),
        csv=[
            report(
                f"results/comparison/{{study}}/{table}.csv",
                caption="../report/table.rst",
                category="Comparison",
                subcategory="tables",
                labels={"item": table, "format": "CSV"},
            )
            for table in catalog.COMPARISON
        ],
        parquet=expand("results/comparison/{{study}}/{table}.parquet", table=catalog.COMPARISON),
    log:
        "logs/comparison/{study}.log",
    benchmark:
        "benchmarks/jobs/comparison/{study}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        depends={
            "parameters": {
                name: scenario.stage_parameters(chosen, None)
                for name, chosen in study.scenarios.items()
            },
            "code": fingerprint(
                "pwfl.report",
                "pwfl.report.systems",
                *(f"pwfl.report.{chosen.system}" for chosen in study.scenarios.values()),
            ),
        },
        captions=catalog.COMPARISON,
        figures=comparison_figures(),
    message:
        "Comparison of the scenarios of {wildcards.study}"
    script:
        "../scripts/comparison.py"
