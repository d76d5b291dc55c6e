localrules:
    audits,


rule audit:
    "What tests of the code that trains find, beside the privacy that account states: of all schemes of a scenario."
    input:
        unpack(inputs("audit")),
    output:
        csv=f"{RESULTS}/{{scenario}}/audit.csv",
        parquet=f"{RESULTS}/{{scenario}}/audit.parquet",
        made=f"{RESULTS}/{reports.record('audit', '{scenario}')}",
    log:
        f"logs/report/{study.name}/{{scenario}}/audit.log",
    benchmark:
        f"logs/report/{study.name}/{{scenario}}/audit.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=30,
    params:
        depends=depends("audit"),
    message:
        "{wildcards.scenario}: audit of the privacy"
    script:
        "../scripts/audit.py"


rule audits:
    "The audits of all scenarios, points of sweeps as well, which the whole study leaves out."
    input:
        expand(f"{RESULTS}/{{scenario}}/audit.csv", scenario=study.scenarios),
