# Figures, tables, claims.
from pwfl.report import catalog
from pwfl.systems import registry


localrules:
    scenario,


rule scenario:
    "A scenario with all defaults filled in."
    input:
        unpack(inputs("scenario")),
    output:
        yaml=f"{RESULTS}/{{scenario}}/scenario.yaml",
        csv=f"{RESULTS}/{{scenario}}/parameters.csv",
        parquet=f"{RESULTS}/{{scenario}}/parameters.parquet",
        made=f"{RESULTS}/{reports.record('scenario', '{scenario}')}",
    log:
        f"logs/report/{study.name}/{{scenario}}/scenario.log",
    conda:
        "../envs/environment.yaml"
    params:
        depends=depends("scenario"),
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
            unpack(inputs("tables")),
        output:
            csv=expand(
                f"{RESULTS}/{{{{scenario}}}}/{{table}}.csv",
                table=registry.system(system).catalog.tables,
            ),
            parquet=expand(
                f"{RESULTS}/{{{{scenario}}}}/{{table}}.parquet",
                table=registry.system(system).catalog.tables,
            ),
            addresses=f"{RESULTS}/{{scenario}}/addresses.csv",
            made=f"{RESULTS}/{reports.record('tables', '{scenario}')}",
        log:
            f"logs/report/{study.name}/{{scenario}}/tables.log",
        benchmark:
            f"logs/report/{study.name}/{{scenario}}/tables.tsv"
        wildcard_constraints:
            scenario=reports.scenarios_of(study, system),
        conda:
            "../envs/environment.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=10,
        params:
            depends=depends("tables"),
            tables=list(registry.system(system).catalog.tables),
        message:
            "{wildcards.scenario}: tables"
        script:
            "../scripts/tables.py"

    rule:
        "A scenario's figures."
        name:
            f"figures_{system}"
        input:
            unpack(inputs("figures")),
        output:
            **drawn(
                f"{RESULTS}/{{{{scenario}}}}/{{figure}}",
                [(system, figure) for figure in reports.figures(system)],
                category="{scenario}",
            ),
            made=f"{RESULTS}/{reports.record('figures', '{scenario}')}",
        log:
            f"logs/report/{study.name}/{{scenario}}/figures.log",
        benchmark:
            f"logs/report/{study.name}/{{scenario}}/figures.tsv"
        wildcard_constraints:
            scenario=reports.scenarios_of(study, system),
        conda:
            "../envs/environment.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=10,
        params:
            depends=depends("figures"),
        message:
            "{wildcards.scenario}: figures"
        script:
            "../scripts/figures.py"


rule comparison:
    "Tables and figures over all scenarios of the study: claims, outcomes, summary."
    input:
        unpack(inputs(reports.COMPARISON)),
    output:
        **drawn(
            f"{RESULTS}/{{system}}_{{figure}}",
            reports.comparison_figures(study),
            category="Comparison",
        ),
        csv=expand(f"{RESULTS}/{{table}}.csv", table=catalog.COMPARISON),
        parquet=expand(f"{RESULTS}/{{table}}.parquet", table=catalog.COMPARISON),
        paper=expand(f"{RESULTS}/{{file}}", file=reports.for_paper(study)),
        made=f"{RESULTS}/{reports.record(reports.COMPARISON)}",
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
        depends=depends(reports.COMPARISON),
        tables=list(catalog.COMPARISON),
    message:
        f"comparison of the scenarios of {study.name}"
    script:
        "../scripts/comparison.py"


rule page:
    "One file to open: what the study is, its claims, figures and tables, with links to the files beside it."
    input:
        unpack(inputs(reports.PAGE)),
    output:
        html=report(
            f"{RESULTS}/index.html",
            caption="../report/page.rst",
            category="Study",
            labels={"figure": "all figures and tables, interactive"},
        ),
        made=f"{RESULTS}/{reports.record(reports.PAGE)}",
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
        depends=depends(reports.PAGE),
    message:
        f"page of {study.name}"
    script:
        "../scripts/page.py"
