"""Words that may stand for each other in a question without changing what a right answer is.

`SAME` holds whatever the question is about; a wrong pair there serves wrong answers. `NEAR` holds in most questions: such a
pair is counted as half a match. The first word names the group.
"""

from __future__ import annotations

_SAME = """
buy purchase
cancel terminate discontinue
remove delete erase
begin start commence
finish end
prevent avoid
help assist aid
fix repair mend
reduce lower decrease lessen
increase raise boost
improve enhance
modify alter amend
get obtain acquire receive
choose select pick
allow permit
ban prohibit forbid disallow
big large huge
small little tiny
fast quick rapid speedy
fastest quickest
rapidly fastly
hard difficult tough
easy simple
cheap inexpensive affordable
expensive costly pricey
important essential crucial
smart intelligent clever
sick ill
happy glad
film movie
photo picture pic
car automobile
doctor physician
lawyer attorney
salary wage
child kid
baby infant
mom mother mum mommy
dad father daddy
flat apartment
holiday vacation
shop store
rubbish garbage trash
luggage baggage
parcel package
delivery shipping shipment
refund reimbursement moneyback
licence license
mobile cellphone
phone telephone
email mail
password passcode
website site webpage
app application
laptop notebook
programme program
warranty guarantee
drawback downside disadvantage
benefit advantage upside
forecast weather
tablet pill
jab vaccine vaccination
dose dosage
advice guidance
method technique approach
result outcome
error mistake
problem issue
speak talk
reply respond answer
book reserve
reservation booking
street road
country nation
world globe earth
boss manager
company firm
usa america
uk britain
bengaluru bangalore
mumbai bombay
color colour
colored coloured
favor favour
favorite favourite
neighbor neighbour
labor labour
behavior behaviour
honor honour
humor humour
flavor flavour
center centre
liter litre
meter metre
theater theatre
fiber fibre
caliber calibre
gray grey
tire tyre
check cheque
aluminum aluminium
pajamas pyjamas
defense defence
offense offence
practice practise
organize organise
organization organisation
recognize recognise
analyze analyse
realize realise
authorize authorise
authorization authorisation
customize customise
optimize optimise
optimization optimisation
minimize minimise
maximize maximise
summarize summarise
apologize apologise
memorize memorise
visualize visualise
initialize initialise
catalog catalogue
dialog dialogue
enroll enrol
instalment installment
fulfill fulfil
mold mould
plow plough
artifact artefact
mathematics math maths
television tv telly
refrigerator fridge
advertisement ad advert
examination exam
information info
university uni
bicycle bike
plane airplane aeroplane aircraft
lift elevator
pavement sidewalk
petrol gasoline
cv resume
approximately roughly
nearly almost
frequently often
rarely seldom
permanently forever
immediately instantly
feasible possible
beautiful gorgeous
correct right
wrong incorrect
entire whole
enough sufficient
own possess
writer author
define explain definition
difference distinction
affect influence impact
happen occur
solve resolve
verify confirm
calculate compute
afraid scared
pimple acne
belly tummy
wealthy rich
invoice bill
configure setup
screen display
paperwork document
drug medication medicine
illegal unlawful
legal lawful
unhealthy harmful
atm cashpoint
daily everyday
yearly annual annually
monthly
weekly
quarterly
inside within
other another different
woman female
man male
sofa couch
kettle
pub bar
toilet restroom bathroom
chemist pharmacy
timetable schedule
postpone defer delay
swap exchange
broken faulty
maintenance upkeep
reset
soccer football
movie
journey trip
mobile
bedroom bed
contact reach
join
lend loan
teenager teen
elderly senior
deadline
"""
_NEAR = """
stop quit prevent end
get have find
fee charge cost price rate
change update edit modify switch
make create generate build develop
send submit file
request ask apply
need require want
improve better increase
leave quit exit end cancel
keep stay remain maintain
pay charge
become be
learn study teach know
lose drop
vehicle car
house home
city town place
person people human man
job employment work career
plan tier package
order parcel purchase
symptom sign cause
side effect
tip trick suggestion advice hint
step procedure process way method
idea concept
goal aim objective purpose
difficult bad
error problem bug fault defect
good great best nice top
bad terrible awful
show display see view
check verify see
use utilize employ
mean meaning define
look appear seem
think opinion view
best fastest easiest top
test exam
company business organization
main primary key major
image photo picture
message text
text font
run operate execute
open access
save store
speak say
believe think
famous popular
earn make
date time day
annual yearly year
earth planet
connect link pair
set put
gain get
hire employ recruit
boil cook
vaccine shot injection
client customer
employee staff worker
student pupil
insurance policy cover coverage
term semester
limit cap maximum
allowance limit entitlement
receive get
author write
drinking drink
invent create
discover find
location place address where
reason why
calorie
luggage bag
spend pay
fly flight
driver drive
withdraw withdrawal
open opening
closing close
renewal renew
subscribe subscription
apply application
submit submission
deliver delivery
prescribe prescription
describe description
decide decision
permit permission
extend extension
expand expansion
receive reception
die death
live life
lose loss
grow growth
believe belief
choose choice
sell sale
weigh weight
high height
long length
deep depth
wide width
strong strength
hot heat
true truth
succeed success
analyze analysis
behave behavior
compare comparison
explain explanation
pronounce pronunciation
"""


def _groups(lines: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for head, *others in map(str.split, filter(None, lines.splitlines())):
        for word in others:
            found.setdefault(word, head)
    return found


def _neighbours(lines: str) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, words in enumerate(map(str.split, filter(None, lines.splitlines()))):
        for word in words:
            found.setdefault(word, set()).add(number)
    return {word: frozenset(groups) for word, groups in found.items()}


SAME = _groups(_SAME)
"""Word → the word that names its group."""

NEAR = _neighbours(_NEAR)
"""Word → the groups in which it has near relations."""
