"""Chinese terms and the English words that they mean, so that a classifier trained on English reads Chinese too.

A run of characters is cut greedily, the longest known term first; a character that begins none stands for itself. It is a word
list, not a translation: it says what a text is about and what it asks for.

Rules
- A line is English words and the terms that mean them, simplified. A dash: the term has no counterpart and says nothing.
- Traditional characters are read as simplified ones (`_TRADITIONAL`), those that the terms have.
"""

from __future__ import annotations

from collections.abc import Mapping

_TERMS = """
- : 的 了 吗 呢 吧 啊 地 得 着 过 把 被 个 一个 一种 一些 下 一下 来 去 就 也 都 会 而 之 所 其 一 些 呀 嘛 只 并 位 名 只 支 本 条 件 张 次 种 份
what : 什么 啥 何
what is : 什么是 是什么
what does mean : 什么意思 是什么意思
how : 如何 怎么 怎样 怎么样 怎么做
how many : 多少 几 多少个 几个 几种 有几
how much : 多少钱 多少元
how long : 多久 多长时间
how far : 多远
how high : 多高
how big : 多大
why : 为什么 为何 为啥
who : 谁 是谁
which : 哪 哪个 哪些 哪一 哪种 哪一个 哪项 哪一项 下列哪项
which of the following : 以下哪 下列哪 以下哪个 下列哪个 以下哪些 以下哪项
where : 哪里 哪儿 在哪 在哪里 何处
when : 什么时候 何时
what year : 哪年 哪一年
is : 是 为 等于 就是
are : 都是
was : 曾经
in : 在 里 里面 中 内
of : 之间
to : 到 给 向
from : 从 由 来自
by : 通过 根据 按 按照
with : 带 带有 跟
for : 对 对于 为了 针对
and : 和 与 及 以及 并且 且 同时
or : 或 或者 还是
but : 但 但是 不过
if : 如果 若 假如 要是
then : 那么 然后 则 接着
not : 不 没 没有 非 不是 无
all : 所有 全部 一切
each : 每 每个 各 各个
every : 每天 每次
this : 这 这个 此 本 该
these : 这些 这几个
that : 那 那个
those : 那些
following : 下面 以下 下列 如下
above : 上面 以上 上述
i : 我 我们
my : 我的 我们的
you : 你 您 你们
your : 你的
he : 他
his : 他的
she : 她
her : 她的
it : 它
they : 他们 它们
me : 帮我 给我
please : 请 请你 麻烦
help : 帮 帮忙 帮助
can : 能 可以 能够 能不能 可否
should : 应该 应当 应
must : 必须 一定 务必
may : 可能 也许
need : 需要 要
want : 想 想要
have : 有 拥有 具有 含有
use : 用 使用 利用 采用 运用
using : 用来
between : 之间的
about : 关于 有关 左右 大约
more : 更 更多 更加
most : 最 最多
than : 比
less : 更少
least : 至少 最少
only : 只能 只有 仅 只需
same : 相同 同样 一样
different : 不同
other : 其他 其它 别的
first : 第一 首先 第一个 首
second : 第二 第二个
third : 第三 第三个
last : 最后 最后一个 最终
one : 一条 一位
two : 两 二 两个 两种 两段
three : 三 三个 三种 三段
four : 四 四个
five : 五 五个
six : 六
seven : 七
eight : 八
nine : 九
ten : 十 十个
hundred : 百
thousand : 千
million : 百万
hello : 你好 您好 嗨 哈喽
good morning : 早上好 早安
good night : 晚安
good evening : 晚上好
thanks : 谢谢 多谢 感谢 谢谢你 非常感谢
yes : 好 好的 行 对的 嗯
continue : 继续
ok : 没问题 可以的
goodbye : 再见
write : 写 写出 撰写 编写 写一个 写一首 写一篇 写一段 写一封 写个
tell : 讲 告诉 告诉我 讲个 说
give : 给出 提供 举 给我一个
make : 做 制作 使
create : 创建 建立 新建
generate : 生成
draft : 起草 草拟
explain : 解释 说明 阐述 讲解
describe : 描述
define : 定义
list : 列出 列举 列表 清单
translate : 翻译 翻译成 译成 译为
summarize : 总结 概括 归纳 总结一下
summary : 摘要 概述 概要
extract : 提取 抽取 找出
classify : 分类 归类
rewrite : 改写 重写
proofread : 校对
polish : 润色
shorten : 缩短 缩写
correct : 正确 改正 纠正 正确的
typos : 错别字 拼写错误
grammar : 语法
spelling : 拼写
convert : 转换 换算 转成 转换成
count : 数 计数
sort : 排序
find : 求 找 寻找 查找 找到
solve : 解 求解 解答 解决 解方程
calculate : 计算 算 算一下 算出
compute : 求出
simplify : 化简
prove : 证明 求证 证
proof : 论证
show that : 试证
by induction : 归纳法 数学归纳法
contradiction : 反证 反证法
theorem : 定理
lemma : 引理
derive : 推导 导出
derivation : 推导过程
formula : 公式
analyze : 分析
analysis : 剖析
compare : 比较 对比
contrast : 对照
difference : 区别 差别 差异 不同点
evaluate : 评估 评价
assess : 评判
critique : 批评
design : 设计
plan : 计划 规划 方案
strategy : 策略 战略
implement : 实现 实施
refactor : 重构
optimize : 优化
debug : 调试 排查 排错
fix : 修复 修 修正 改
error : 错误 报错 误差
bug : 漏洞
diagnose : 诊断
diagnosis : 鉴别诊断
migrate : 迁移
architecture : 架构
trade offs : 权衡 取舍
pros and cons : 利弊 优缺点
advantages : 优点 优势
disadvantages : 缺点 劣势
root cause : 根因 根本原因
bottleneck : 瓶颈
deadlock : 死锁
concurrency : 并发
concurrent : 并行
distributed : 分布式
cache : 缓存
memory leak : 内存泄漏
memory : 内存
complexity : 复杂度
time complexity : 时间复杂度
step by step : 一步一步 逐步 一步步 分步
think carefully : 仔细思考 认真思考 深入思考
reasoning : 推理 推理过程
reason : 原因 理由
cause : 导致 造成 引起
effect : 影响 效果 作用
result : 结果
answer : 答案 回答 答
question : 问题 题 题目 问
problem : 难题
example : 例子 例如 比如 示例 举例
code : 代码 程序代码
function : 函数 功能 职能
python function : python函数
program : 程序
algorithm : 算法
class : 类 班 班级
method : 方法
interface : 接口
database : 数据库
table : 表 表格
query : 查询
script : 脚本
regular expression : 正则 正则表达式
string : 字符串
array : 数组
sorted : 有序
integers : 整数
number : 数字 号码 数量
linked list : 链表
tree : 树
binary tree : 二叉树
graph : 图 图表
stack : 栈
queue : 队列
thread : 线程
process : 进程 过程
server : 服务器
client : 客户端 客户
network : 网络
system : 系统
software : 软件
computer : 电脑 计算机
test : 测试 检验 考试
unit test : 单元测试
module : 模块
performance : 性能 表现
security : 安全
password : 密码
user : 用户
file : 文件
data : 数据
model : 模型
training : 训练
learning : 学习
machine learning : 机器学习
neural network : 神经网络
return : 返回
input : 输入
output : 输出
loop : 循环
recursion : 递归
compile : 编译
merge : 合并
reverse : 反转
duplicate : 重复
remove : 去掉 删除 删 移除
add : 加 添加 增加
delete : 删掉
commit : 提交
run : 运行 执行 跑
math : 数学
sum : 和 之和 总和
total : 一共 总共 共 总 合计
product : 乘积 产品
average : 平均 平均数 平均值
probability : 概率
ratio : 比例 比
percent : 百分之 百分比
fraction : 分数
remainder : 余数
divided by : 除以
times : 乘 乘以 倍
plus : 加上
minus : 减 减去
equation : 方程 方程式
differential equation : 微分方程
inequality : 不等式
polynomial : 多项式
matrix : 矩阵
determinant : 行列式
eigenvalue : 特征值
eigenvalues : 本征值
vector : 向量
integral : 积分 定积分
derivative : 导数
limit : 极限
continuous : 连续
differentiable : 可微 可导
convergence : 收敛
sequence : 数列 序列
series : 级数
prime : 质数 素数
odd : 奇数
even : 偶数
square : 正方形 平方
square root : 平方根 根号
irrational : 无理数
triangle : 三角形
circle : 圆 圆形
rectangle : 矩形 长方形
area : 面积 地区
volume : 体积
perimeter : 周长
radius : 半径
diameter : 直径
angle : 角 角度
slope : 斜率
length : 长 长度
width : 宽
height : 高 高度 身高
distance : 距离
speed : 速度
time : 时间
minutes : 分钟
hours : 小时
days : 天
day : 日
weeks : 周 星期
months : 个月
month : 月
years : 年
year : 年份
old : 岁
meters : 米
kilometers : 公里 千米
kilograms : 公斤 千克
dollars : 元 块 美元
cents : 分
price : 价格 价钱 单价
cost : 成本 费用 花费 花
money : 钱
buy : 买 购买
sell : 卖 出售
sells : 卖出
store : 商店 店
pay : 付 支付
left : 剩 剩下 还剩
apples : 苹果
books : 书
pens : 笔
students : 学生
teacher : 老师 教师
children : 孩子 小孩 儿童
boys : 男生
girls : 女生
train : 火车
car : 汽车 车
water : 水
group : 群 组
subgroup : 子群
ring : 环
field : 域 领域 场
isomorphism : 同构
homomorphism : 同态
manifold : 流形
topology : 拓扑
law : 法律 定律 法 法则
court : 法院 法庭
plaintiff : 原告
defendant : 被告
contract : 合同
contract law : 合同法
tort : 侵权
negligence : 过失
liability : 责任 赔偿责任
damages : 损害赔偿 赔偿
crime : 犯罪
criminal : 刑事
criminal law : 刑法
constitution : 宪法
landlord : 房东
tenant : 租客 房客
lease : 租约 租赁
property : 财产 房产 性质
statute : 法规 条例
lawyer : 律师
judge : 法官 判断
burden of proof : 举证责任 举证
sue : 起诉 诉讼
patient : 患者 病人
disease : 疾病 病
symptoms : 症状
treatment : 治疗
therapy : 疗法
drug : 药物 药
dose : 剂量
surgery : 手术
infection : 感染
cancer : 癌症 癌
tumor : 肿瘤
blood : 血 血液
blood pressure : 血压
hypertension : 高血压
diabetes : 糖尿病
heart : 心脏 心
chest pain : 胸痛
pain : 疼痛 痛
acute : 急性
chronic : 慢性
fever : 发烧 发热
virus : 病毒
bacteria : 细菌
antibiotics : 抗生素
vaccine : 疫苗
myocardial infarction : 心肌梗死 心肌梗塞
cell : 细胞
cells : 癌细胞
gene : 基因
dna : 脱氧核糖核酸
protein : 蛋白 蛋白质
enzyme : 酶
chromosome : 染色体
evolution : 进化
species : 物种
plants : 植物
animals : 动物
animal : 宠物
physics : 物理 物理学
force : 力
mass : 质量
energy : 能量 能源
velocity : 速率
acceleration : 加速度
momentum : 动量
frequency : 频率
wave : 波
light : 光
electric : 电
current : 电流
voltage : 电压
resistance : 电阻 阻力
temperature : 温度
pressure : 压力 压强
heat : 热 热量
entropy : 熵
quantum : 量子
pendulum : 单摆
period : 周期
electron : 电子
atom : 原子
molecule : 分子
chemistry : 化学
reaction : 反应
acid : 酸
base : 碱
solution : 溶液 解决方案
oxygen : 氧 氧气
hydrogen : 氢
carbon : 碳
mol : 摩尔
ph : 酸碱度
economics : 经济学
economy : 经济
market : 市场
demand : 需求
supply : 供给
inflation : 通胀 通货膨胀
interest rate : 利率
tax : 税
investment : 投资
stock : 股票
bond : 债券
asset : 资产
debt : 债务
revenue : 收入
profit : 利润
company : 公司 企业
arbitrage : 套利
derivatives : 衍生品
valuation : 估值
depreciation : 折旧
accounting : 会计
bank : 银行
government : 政府
policy : 政策
war : 战争
history : 历史
king : 国王
emperor : 皇帝
dynasty : 朝 朝代
revolution : 革命
country : 国家
china : 中国
chinese : 中文 汉语
english : 英语 英文
french : 法语 法文
german : 德语
japanese : 日语 日文
spanish : 西班牙语
japan : 日本
france : 法国
america : 美国
england : 英国
world : 世界
city : 城市
capital : 首都
population : 人口
river : 河 河流
mountain : 山
sea : 海
sun : 太阳
earth : 地球
moon : 月亮 月球
planet : 行星
philosophy : 哲学
ethics : 伦理 伦理学
moral : 道德
argument : 论点 参数
logic : 逻辑
psychology : 心理学
memory recall : 记忆
behavior : 行为
society : 社会
culture : 文化
religion : 宗教
poem : 诗 诗歌
story : 故事
joke : 笑话
email : 邮件 电子邮件
letter : 信 信件
article : 文章
essay : 作文 论文
blog post : 博客
speech : 演讲 演讲稿
title : 标题 题名
slogan : 口号 标语
recipe : 菜谱 食谱
song : 歌 歌曲
sings : 唱
movie : 电影
novel : 小说
music : 音乐
game : 游戏
team : 球队 团队
won : 赢 获得
name : 名字 名称 叫 叫什么
names : 人名
people : 人 人们
man : 男人 男子
woman : 女人 女子
family : 家庭
mother : 妈妈 母亲
father : 爸爸 父亲
grandma : 奶奶 外婆
friend : 朋友
boss : 老板 领导
food : 食物 吃
travel : 旅行 旅游
birthday : 生日
greeting : 祝福
spring : 春天 春
summer : 夏天
autumn : 秋天
winter : 冬天
text : 文本 文字 段落 这段话
paragraph : 段
sentence : 句子 这句话 句
word : 词 单词
words : 字
in one sentence : 一句话 用一句话
in one word : 一个词
brief : 简短 简要
detailed : 详细
table format : 表格形式
format : 格式
markdown : 标记
json : 键值
review : 评论 评价一下
sentiment : 情感
positive : 正面 积极
negative : 负面 消极
synonym : 同义词
antonym : 反义词
keywords : 关键词
meaning : 意思 含义 意义
today : 今天
tomorrow : 明天
yesterday : 昨天
weather : 天气
ensure : 确保 保证
satisfy : 满足
assume : 假设 设
given : 给定 已知
let : 令
such that : 使得
at most : 至多
at least : 不少于
exactly : 恰好 正好
unless : 除非
consider : 考虑
determine : 确定 判定
estimate : 估计 估算
structure : 结构
role : 角色 职责
principle : 原理 原则
theory : 理论
experiment : 实验
hypothesis : 假说
evidence : 证据
model answer : 范文
consistent : 一致
consensus : 共识
protocol : 协议
message : 消息
request : 请求
service : 服务
api : 接口文档
lock : 锁
transaction : 事务 交易
index : 索引
backup : 备份
deploy : 部署
log : 日志
monitor : 监控
user story : 用户故事
project : 项目
team lead : 组长
meeting : 会议
schedule : 日程 安排
report : 报告
resume : 简历
interview : 面试
customer : 顾客
product launch : 发布会
great wall : 长城
written : 写的
built : 建 建的 修建
born : 出生
died : 去世
invented : 发明
discovered : 发现
largest : 最大
smallest : 最小
highest : 最高
longest : 最长
fastest : 最快
color : 颜色
size : 大小
type : 类型
value : 值 价值
change : 变化 改变 改成 换
increase : 上升 增长 提高
decrease : 下降 减少 降低
improve : 改进 改善 提升
build : 构建 搭建
"""
# Pairs of a traditional character and its simplified one.
_TRADITIONAL = """
个個 们們 这這 么麼 么麽 什甚 谁誰 时時 为為 为爲 证證 导導 设設 计計 实實 现現 优優 化化 类類 数數 据據 库庫 码碼 语語 译譯 总總 结結
列列 举舉 写寫 诗詩 讲講 话話 说說 错錯 别別 邮郵 标標 题題 答答 问問 应應 该該 请請 对對 较較 评評 价價 调調 试試 构構 变變 线線
执執 运運 动動 电電 脑腦 网網 络絡 务務 户戶 统統 软軟 键鍵 历歷 国國 汉漢 英英 经經 济濟 学學 医醫 药藥 疗療 诊診 断斷 压壓 细細 胞胞
质質 损損 赔賠 偿償 诉訴 讼訟 责責 侵侵 权權 约約 财財 产產 资資 债債 务務 税稅 银銀 钱錢 买買 卖賣 单單 书書 笔筆 车車 长長 宽寬
圆圓 积積 体體 径徑 级級 极極 连連 续續 项項 阵陣 值值 值值 几幾 两兩 从從 会會 进進 过過 还還 没沒 给給 让讓 写寫 创創 东東 达達
达達 万萬 亿億 岁歲 钟鐘 华華 乐樂 气氣 热熱 压壓 离離 测測 观觀 报報 纸紙 关關 开開 团團 员員 师師 爷爺 奶奶 妈媽 爱愛 亲親 详詳
简簡 义義 词詞 读讀 选選 择擇 认認 识識 记記 录錄 论論 谢謝 见見 吗嗎 吧吧 点點 样樣 条條 种種 显顯 块塊 环環 图圖 树樹 队隊 协協
议議 锁鎖 环環 复複 杂雜 阶階 确確 无無 终終 则則 减減 乘乘 归歸 纳納 权權 衡衡 瓶瓶 颈頸 内內 泄洩 漏漏 后後 够夠 帮幫 忙忙 发發 烧燒
"""


def _read_terms() -> dict[str, dict[str, tuple[str, ...]]]:
    index: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in _TERMS.strip().splitlines():
        english, _, terms = line.partition(" : ")
        words = () if english == "-" else tuple(english.split())
        for term in terms.split():
            index.setdefault(term[0], {}).setdefault(term, words)
    return index


# Terms under their first character.
TERMS: Mapping[str, Mapping[str, tuple[str, ...]]] = _read_terms()
_LONGEST: Mapping[str, int] = {first: max(map(len, terms)) for first, terms in TERMS.items()}
_SIMPLIFIED = str.maketrans({pair[1]: pair[0] for pair in _TRADITIONAL.split() if pair[0] != pair[1]})


def translated(run: str) -> list[str]:
    """The words of a run of characters."""
    run = run.translate(_SIMPLIFIED)
    words: list[str] = []
    place = 0
    while place < len(run):
        first = run[place]
        longest = _LONGEST.get(first, 0)
        if not longest:
            words.append(first)
            place += 1
            continue
        terms = TERMS[first]
        for size in range(longest, 0, -1):
            found = terms.get(run[place : place + size])
            if found is not None:
                words.extend(found)
                place += size
                break
        else:
            words.append(first)
            place += 1
    return words
