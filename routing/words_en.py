"""The English words that the rules listen for.

Rules
- Whole words, in the forms written here or made by `_verbs` and `_nouns`; as bytes, which is what a text is cut into.
- A word has one kind. What the kind is worth is not said here but in `rules.WEIGHTS`.
- `domain` is for terms that hardly occur outside a field that is hard for small models; `field` for everyday words of the same
  fields, of which it takes several to mean anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def _spelled(words: Iterable[str]) -> frozenset[bytes]:
    return frozenset(word.encode("ascii") for word in words)


def _plain(words: str) -> set[str]:
    return set(words.split())


def _verbs(words: str) -> set[str]:
    forms: set[str] = set()
    for verb in words.split():
        stem = verb.removesuffix("e")
        forms |= {verb, verb + "s", stem + "ed", stem + "ing"}
    return forms


def _nouns(words: str) -> set[str]:
    forms: set[str] = set()
    for noun in words.split():
        forms |= {noun, noun + "s", noun[:-1] + "ies" if noun.endswith("y") else noun + "es"}
    return forms


_PROOF = (
    _verbs("prove disprove derive deduce") | _nouns("proof theorem lemma corollary conjecture derivation") | {"proven", "qed"}
)

_WORK_VERBS = """
    analyse analyze evaluate assess critique compare contrast design refactor debug diagnose optimise optimize
    implement investigate troubleshoot benchmark migrate parallelise parallelize formalise formalize reconcile
    prioritise prioritize justify synthesise synthesize harden restructure redesign
"""
_WORK_NOUNS = """
    architecture analysis trade-off tradeoff roadmap strategy bottleneck deadlock regression root-cause vulnerability concurrency
"""
_WORK = "analyses debugging debugged planning scalable fault-tolerant distributed end-to-end"

_CODING_NOUNS = """
    function algorithm regex api endpoint database query script bug compiler thread mutex pointer dataframe docker
    kubernetes codebase repository linter parser program website
"""
_CODING = """
    python javascript typescript java rust golang sql postgres redis async await null nullptr recursion recursive
    stdin json html css bash react backend frontend git cuda pytorch segfault stacktrace coding programming unittest
"""

_ELEMENTARY_MATHS_NOUNS = """
    sum product slope area perimeter probability average ratio fraction remainder digit triangle circle rectangle
    equation inequality divisor integer prime vertex angle radius diameter circumference parabola percentage binomial
    permutation combination quadratic polynomial square cube vector matrix
"""
_ELEMENTARY_MATHS = "divisible vertices matrices arithmetic geometric perpendicular parallel decimal solve simplify"

_LAW = """
    plaintiff defendant appellant appellee tort negligence tortfeasor estoppel easement fiduciary indemnity
    injunction mortgagee testator intestate decedent bailment hearsay subpoena affidavit lien covenant grantor
    grantee trustee jurisdiction statute precedent litigation arbitration misdemeanor felony larceny homicide
    manslaughter promissory offeree offeror
"""
_MEDICINE = """
    diagnosis prognosis aetiology etiology pathogenesis carcinoma sarcoma lymphoma metastasis thrombosis embolism
    ischemia hypertension tachycardia bradycardia dyspnea edema oedema lesion biopsy contraindication pharmacokinetic
    antibiotic corticosteroid anticoagulant hemoglobin creatinine bilirubin electrolyte comorbidity triage syndrome
    neuropathy receptor enzyme allele genotype phenotype ribosome chromosome mitochondria antigen antibody cytokine
    plasmid codon peptide warfarin metformin
"""
_FINANCE = """
    derivative hedging arbitrage amortization depreciation debenture annuity collateral securitization elasticity
    monopsony oligopoly externality heteroskedasticity liquidity portfolio valuation discounting covariance estimator
    likelihood
"""
_SCIENCE = """
    hamiltonian lagrangian eigenvalue eigenvector eigenstate wavefunction quantum photon phonon boson fermion entropy
    enthalpy isotope isomer enantiomer electrophile nucleophile catalyst titration molarity orbital spectroscopy
    diffraction refraction capacitance inductance impedance torque viscosity redshift nucleus oxidation ligand ester
    aldehyde ketone alkene polymer wavelength
"""
_MATHEMATICS = """
    integral determinant homomorphism isomorphism manifold topology subgroup automorphism bijection martingale
    convergence invariant congruence hypotenuse logarithm coefficient automaton consensus linearizability
    serializability
"""
_PHILOSOPHY = "epistemology ontology utilitarianism syllogism fallacy"
_DOMAIN_NOUNS = f"{_LAW} {_MEDICINE} {_FINANCE} {_SCIENCE} {_MATHEMATICS} {_PHILOSOPHY}"
_DOMAIN = """
    mens actus habeas certiorari prima statutory contractual appellate indictable tortious gdpr hipaa intravenous
    myocardial hepatic renal pulmonary cerebral malignant benign subcutaneous congenital mmol econometric
    macroeconomic microeconomic basel ifrs gaap sox hedge adiabatic isothermal stereochemistry relativistic
    stoichiometry thermodynamic thermodynamics covalent molar isotonic asymptotic modulo combinatorial np-hard
    np-complete bayesian stochastic abelian cyclic injective surjective continuous differentiable orthogonal
    hermitian deontological metaphysics hermeneutic historiography categorical
"""

_FIELD_NOUNS = """
    court judge attorney lawyer contract clause liability landlord tenant lease claim damage crime murder robbery
    constitution amendment statement act party conveyance deed estate warranty patient symptom disease dose dosage
    tumor tumour fever infection therapy treatment surgery blood artery vein nerve muscle gene protein cell bacteria
    virus hormone clinical tax asset debt equity investor bond stock inflation demand supply price profit revenue
    cost market capital interest audit energy velocity acceleration force mass momentum frequency voltage current
    electron proton atom molecule acid base reaction variance graph axis theory hypothesis argument premise
    conclusion moral ethics cognition behavior psychologist pressure temperature gas solution radiation charge
    circuit field wave sequence bank rate percent loan policy evidence trial appeal rent
"""
_FIELD = "legal legally liable medical financial chronic acute magnetic electric constitutional criminal civil"

_CONSTRAINT = (
    "must should ensure unless without exactly cannot only each every never always satisfy satisfies given assume suppose"
)
_FORMAT = "table markdown yaml csv xml bullet bullets headings paragraphs sections format"

# Verbs of small chores; they count as instructions only (`shape`).
CHORES = _spelled(
    _plain("""
        translate summarise summarize extract classify categorise categorize proofread paraphrase rephrase shorten
        spell reformat capitalise capitalize list count sort
       """)
)

# Small things to write; they count only when something is to be written (`shape`).
CREATIVE = _spelled(
    _plain("""
        poem joke haiku story email tweet caption slogan toast recipe limerick riddle postcard wish song blog
        invitation greeting note letter message title headline poems jokes names
       """)
)

# Verbs that ask for something to be written; of "come up with", the first word.
WRITING = _spelled(_plain("write compose tell draft create give make generate suggest need want come"))

# Where a word is in two kinds, the later one has it.
KINDS: Mapping[bytes, str] = {
    word.encode(): kind
    for kind, words in (
        ("field", _nouns(_FIELD_NOUNS) | _plain(_FIELD)),
        ("coding", _nouns(_CODING_NOUNS) | _plain(_CODING)),
        ("format", _plain(_FORMAT)),
        ("constraint", _plain(_CONSTRAINT)),
        ("elementary", _nouns(_ELEMENTARY_MATHS_NOUNS) | _plain(_ELEMENTARY_MATHS)),
        ("reasoning", {"rationale"}),
        ("domain", _nouns(_DOMAIN_NOUNS) | _plain(_DOMAIN)),
        ("work", _verbs(_WORK_VERBS) | _nouns(_WORK_NOUNS) | _plain(_WORK)),
        ("proof", _PROOF),
    )
    for word in words
}
KNOWN = frozenset(KINDS)

# Phrases and their kinds, under their rarest word: looked for only where that word is.
_PHRASES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "step": (("step by step", "reasoning"),),
    "step-by-step": (("step-by-step", "reasoning"),),
    "think": (("think hard", "reasoning"), ("think carefully", "reasoning"), ("think deeply", "reasoning")),
    "careful": (("careful thought", "reasoning"), ("careful reasoning", "reasoning")),
    "show": (("show your work", "reasoning"), ("show that", "proof"), ("show all steps", "reasoning")),
    "reasoning": (("your reasoning", "reasoning"),),
    "complexity": (("time complexity", "work"), ("space complexity", "work")),
    "pros": (("pros and cons", "work"),),
    "trade": (("trade off", "work"),),
    "root": (("root cause", "work"),),
    "race": (("race condition", "work"),),
    "memory": (("memory leak", "work"),),
    "summary": (("summary judgment", "domain"), ("summary of", "chore"), ("short summary", "chore")),
    "burden": (("burden of proof", "domain"),),
    "due": (("due process", "domain"), ("due diligence", "domain")),
    "differential": (("differential diagnosis", "domain"), ("differential equation", "domain")),
    "year-old": tuple((f"year-old {who}", "domain") for who in ("man", "woman", "male", "female", "patient")),
    "grammar": (("grammar", "chore"),),
    "rewrite": tuple(
        (f"rewrite {which} {what}", "chore")
        for which in ("this", "the", "my")
        for what in ("sentence", "paragraph", "text", "email")
    ),
    "typos": (("typos", "chore"),),
    "spelling": (("the spelling", "chore"), ("spelling mistakes", "chore")),
    "synonym": (("synonym for", "chore"), ("synonym of", "chore")),
    "sentiment": (("sentiment", "chore"),),
    "word": (("one word", "brief"), ("single word", "brief"), ("a word", "brief")),
    "sentence": (("one sentence", "brief"), ("a sentence", "brief"), ("single sentence", "brief")),
    "line": (("one line", "brief"), ("single line", "brief")),
    "yes": (("yes or no", "brief"), ("yes/no", "brief")),
    "briefly": (("briefly", "brief"),),
}
PHRASES: Mapping[bytes, tuple[tuple[str, str], ...]] = {word.encode(): phrases for word, phrases in _PHRASES.items()}

# Every word that can mean something to the rules: a text is searched once for all of them.
LISTENED = KNOWN | CHORES | CREATIVE | WRITING | frozenset(PHRASES)

# Words that tell English from other languages written in Latin letters: those that it cannot do without, and all of the above.
ENGLISH = (
    KNOWN
    | CHORES
    | CREATIVE
    | _spelled(
        _plain("""
        the of is are was what how to and with this that which you your my can please it be from by as at have has if
        then not when where why who should would does do there into his her their they
       """)
    )
)
